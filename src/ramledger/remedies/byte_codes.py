"""Floats of images as one byte each: whole numbers from 0 to 255, or these divided by 255.

A code is exact, bit for bit, or it is none.
"""

from typing import Any

import numpy as np

WHOLE, BY_255, NO_CODE = 1, 255, 0  # what a byte is divided by


def first_code(dtype: Any) -> int:
    """What to try with numbers of that type."""
    return WHOLE if np.dtype(dtype).kind == "f" else NO_CODE


def encoded(values: Any, divisor: int) -> Any:
    """The bytes of these floats; None if one of them cannot be restored."""
    scaled = values if divisor == WHOLE else np.rint(values * values.dtype.type(divisor))
    with np.errstate(invalid="ignore"):  # what is no byte differs below
        codes = scaled.astype(np.uint8)
    bits = f"u{values.dtype.itemsize}"
    same = decoded(codes, values.dtype, divisor).view(bits) == values.view(bits)
    return codes if same.all() else None


def decoded(codes: Any, dtype: Any, divisor: int, out: Any = None) -> Any:
    """The floats of these bytes, as a wrapper that divides an image by 255 computes them."""
    if out is None:
        out = np.empty(codes.shape, dtype)
    out[...] = codes
    if divisor != WHOLE:
        np.divide(out, out.dtype.type(divisor), out=out)
    return out
