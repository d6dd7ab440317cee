"""The symbols of a method's paper: what each is, by which equation, and where the docs tell more."""

from collections.abc import Mapping
from html import escape
from pathlib import Path

from intnet.inspect.page.sections import Given, Section, table

Entry = tuple[str, str, str]  # symbols, what they are, equation or place in the paper

COMMON: tuple[Entry, ...] = (
    ("W, b", "weights and bias of a layer: the masters, which updates change", ""),
    ("x0, x1", "input and output of a matrix product", ""),
    ("mu, sigma, var", "mean and deviation, or variance, of x1 over the batch, a channel", ""),
    ("x3, x4", "output of batch norm, and of the activation after it", ""),
    ("gamma, beta", "scale and offset of batch norm", ""),
    ("e4, e3, e1, e0", "errors, dL/d of x0, x1, x3, x4: the way back", ""),
    ("gW, gb, ggamma, gbeta", "gradients of the parameters", ""),
    ("'", "the value after the update, where the step read the one before under the same name", ""),
    ("SQNR", "power of the values over that of their errors, dB", ""),
)
OF: Mapping[str, tuple[Entry, ...]] = {
    "wageubn": (
        ("Q(., k)", "direct quantization: to steps of 2^(1-k)", "(6)"),
        ("CQ", "constant quantization: scaled by R(x) to the range dr, then stochastic", "(7)"),
        ("SQ, R(x)", "shift quantization; R(x) = 2^round(log2 max|x|)", "(8)"),
        ("Flag-Q", "two grids, of which a flag bit picks one", "(17)"),
        ("Wq, gammaq, betaq, bq", "the copies that the forward pass reads", "(10), (13)"),
        ("x2", "x1 normalized", "Algorithm 1, (13)"),
        ("x4", "activation, 8 bits", "(14)"),
        ("e0", "error at the activation, QE1", "(15)"),
        ("e2", "e1*gammaq", "Algorithm 2"),
        (
            "m1, m2",
            "the batch's means of e2 and of e2*x2; on a grid 16 bits below that of e2",
            "intnet's own",
        ),
        ("e3", "error at the product, QE2", "(16), (17)"),
        ("gWq, ggammaq, gbetaq", "quantized gradients", "(18)"),
        ("Mom, Acc, Accq", "momentum and its accumulator, exact and as it is stored", "(20), (21)"),
        ("lr, W", "learning rate code; the update, exact by the constraints (22) and (24)", "(23)"),
    ),
    "adapt": (
        ("<WL,FL>", "fixed point of WL bits, FL of them after the point, a layer", "sec. 3"),
        ("SR", "stochastic rounding", "sec. 3"),
        ("Wq", "W^ of the paper", "sec. 3"),
        ("gWn", "the quantized gradient, of length 1", "(3.4)"),
        ("PushDown", "the least <WL,FL> that loses at most eps bits of KL", "(3.1)"),
        ("KL", "divergence of the histogram of SR(W) from that of W, r bins", "(3.2)"),
        ("D", "diversity of the gradients of a lookback lb", "(3.5)"),
        ("s1, s2, s", "bits that D suggests; strategy min, mean or max takes s", "(3.6)"),
        ("PushUp", "WL and FL from s and the buffer bits", "sec. 3.3"),
    ),
    "muppet": (
        ("BF(x, WL)", "x in WL bits at the tensor's own scale 2^-s", "Kummer et al. 2.2"),
        ("D", "diversity of the last gradients of `resolution` epochs", "Kummer et al. 2.2"),
        ("p", "the greatest D since the last switch over this one", "Kummer et al. 2.2"),
        (
            "violation",
            "p above 1 + 1.5 exp(-0.1 epoch); after `patience` of them WL moves on",
            "released program",
        ),
    ),
    "dynasty": (
        ("BFP(b)", "block float: 4x4 values share an exponent, mantissas of b bits", "sec. 3.1"),
        ("Wq, Wb", "W in 8 bits, and in the b bits of the map", "sec. 3.1"),
        ("S", "sensitivity of the loss to a block", "(1)"),
        ("b", "bits of a block: its relative sensitivity r less lambda", "(3a), (3b)"),
        ("lambda", "what makes the mean width the wanted one", "Algorithm 1"),
        ("gamma", "smoothing of the map from epoch to epoch (not batch norm's)", "(4)"),
    ),
    "saved": (
        ("x0s, x1s, x3s", "what the tape holds for the backward pass, packed", "sec. 4.2.2"),
        ("a, a~", "a value, and what is read back", "sec. 4.2.2"),
        ("s, z", "scale and zero point of a bucket", "sec. 4.2.2"),
        ("levels, L", "codes by the bucket's norm in L levels", "listing 5.1"),
        ("mix", "two widths, the wider by chance", "sec. 5.7"),
    ),
    "banner": (
        (
            "AQ(x, k)",
            "affine codes of k bits: q = round(x/s + z), a tensor's own s and z",
            "the released program",
        ),
        ("e3w, e3", "the error in 16 bits for the weights' gradient, in 8 for the layer ahead", "sec. 5"),
        ("var", "by the batch's range: (C(n) (max - min))^2", "sec. 4"),
    ),
    "mx": (
        (
            "MX(x)",
            "blocks of 32 along an axis: elements of a narrow format, a power of two a block",
            "OCP, 5.3",
        ),
        (
            "Wq, Wb",
            "W for the forward product, along its inputs, and for the backward one, along its outputs",
            "",
        ),
        ("e3, e3w", "the error for e4, along the outputs, and for gW, along the batch", ""),
        ("x0, x0b", "the input for x1, along the channels, and for gW, along the batch", ""),
    ),
    "float32": (),
}


def section(given: Given) -> Section:
    """Of the page's method."""
    method = str(given.step["method"])
    own = OF.get(method, ())
    rows = "".join(_row(*entry) for entry in (*own, *COMMON))
    pages = [f"docs/methods/{method}.md", "docs/numbers.md", "docs/how-to/look-inside.md"]
    links = ", ".join(_link(page, given.links) for page in pages if method in OF or "methods" not in page)
    made = table("glossary", ("symbol", "what it is", "equation"), rows)
    told = f"<p>Equation numbers are the paper's. More, with the code of each equation: {links}.</p>"
    return Section("Glossary", f"<details><summary>Symbols and equations</summary>{told}{made}</details>")


def _row(symbols: str, what: str, equation: str) -> str:
    about = f'<th scope="row">{escape(symbols)}</th><td class="about">{escape(what)}</td>'
    none = "" if equation else ' class="none"'
    return f'<tr>{about}<td{none} data-is="equation">{escape(equation) or "-"}</td></tr>'


def _link(page: str, links: Mapping[str, str]) -> str:
    return f'<a href="{escape(links[page])}">{page}</a>' if page in links else f"<code>{page}</code>"


def beside(html: Path, docs: Path) -> dict[str, str]:
    """Links from a page to the files of the docs, where both lie in one folder of folders; else none."""
    if not docs.is_dir():
        return {}
    try:
        up = html.resolve().parent.relative_to(docs.parent.resolve())
    except ValueError:
        return {}
    lead = "../" * len(up.parts)
    pages = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    return {f"docs/{one}": f"{lead}docs/{one}" for one in pages}
