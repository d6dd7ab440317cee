"""Single steps of WAGEUBN in the definition, against hand-computed answers."""
from fractions import Fraction

from intnet.spec import Fixed
from intnet.spec.methods import wageubn_layers as layers

F = Fraction


def test_update_by_hand():
    got = layers.update([100, 0, 0], [-8, 0, 0], [5, 2, 6], lr=26)
    assert got == ([-19, 2, 6], [-5, 0, 2], [594, -52, -156], 0)
    edge = 2**23 - 1
    assert layers.update([edge, -edge], [0, 0], [-1, 1], lr=1) == ([-1, 1], [0, 0], [edge, -edge], 2)
    assert layers.update([edge], [0], [-1], lr=1, saturate=False).w == [edge + 1]
    assert layers.update32([F(1)], [F(1)], [F(1, 4)], lr=1) == ([1], [1 - F(1, 512)])


def test_mask_drops_the_error_at_zero():
    assert layers.mask(Fixed((3,), [7, 8, 9], -7), Fixed((3,), [1, 0, -1], -22)) == ((3,), [7, 0, 0], -7)


def test_weights_are_clipped_at_eight_bits():
    assert layers.weight_q(Fixed((3,), [2**23 - 1, 3 * 2**15, -(2**22)], -23)) == ([127, 2, -64], -7, 1)
