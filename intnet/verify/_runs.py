"""Stand-in for geometry's runs until they are there."""


def forward_runs(g, n, y, x, o):
    first = o // (g.o // g.groups) * g.cg
    out = []
    for i in range(g.kh):
        for j in range(g.kw):
            at = g.x(n, y * g.sh + i - g.top, x * g.sw + j - g.left, first)
            w = g.wt(o, 0, i, j)
            step = g.kh * g.kw
            out.append((None if at < 0 else range(at, at + g.cg), range(w, w + step * g.cg, step)))
    return out


def input_runs(g, n, y, x, c):
    og = g.o // g.groups
    group, inner = c // g.cg, c % g.cg
    out = []
    step = g.cg * g.kh * g.kw
    for i in range(g.kh):
        for j in range(g.kw):
            oy, ry = divmod(y + g.top - i, g.sh)
            ox, rx = divmod(x + g.left - j, g.sw)
            hit = ry == 0 and rx == 0 and 0 <= oy < g.oh and 0 <= ox < g.ow
            e = g.e(n, oy, ox, group * og)
            w = g.wt(group * og, inner, i, j)
            out.append((range(e, e + og) if hit else None, range(w, w + step * og, step)))
    return out


def weight_runs(g, o, c, i, j):
    first = o // (g.o // g.groups) * g.cg
    out = []
    for n in range(g.n):
        for y in range(g.oh):
            for x in range(g.ow):
                at = g.x(n, y * g.sh + i - g.top, x * g.sw + j - g.left, first + c)
                e = g.e(n, y, x, o)
                out.append((None if at < 0 else range(at, at + 1), range(e, e + 1)))
    return out
