"""What a bit width and an exponent may be: whole numbers, or an error that says which one is not."""

from intnet.errors import FormatError

MAX_BITS = 32
FAR = 1 << 60  # exponents are within: int64 holds the sum of two, and what a code of 64 bits adds


def check_bits(bits: int, what: str) -> None:
    """FormatError unless 1 <= bits <= 32."""
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= MAX_BITS:
        raise FormatError(f"{what} = {bits!r}: a bit width is a whole number from 1 to {MAX_BITS}")


def check_signed(signed: bool, what: str) -> None:
    """FormatError unless True or False: what came into its place by mistake is no sign."""
    if not isinstance(signed, bool):
        raise FormatError(f"{what} signed = {signed!r}: True or False")


def check_exponent(exponent: int, what: str) -> None:
    """FormatError unless a whole number within FAR."""
    if isinstance(exponent, bool) or not isinstance(exponent, int):
        raise FormatError(f"{what} = {exponent!r} is not a whole number")
    if not -FAR < exponent < FAR:
        raise FormatError(f"{what} = {exponent}: exponents are below 2^{FAR.bit_length() - 1}, either way")
