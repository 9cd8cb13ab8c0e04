"""Families of algorithms: sorting, FFT, linear algebra, random numbers."""

from tests.benchmarks.sweep.draw import Draw


def sorting(draw: Draw) -> str:
    """Draw a sort, argsort or top_k along an axis, of keys alone or with values."""
    rank = draw.integer(1, 3)
    shape = draw.shape(rank, high=2**17)
    dtype = draw.dtype(integers=0.3)
    x = draw.parameter(shape, dtype)
    axis = draw.choice(rank - 1, rank - 1, draw.integer(0, rank - 1))
    form = draw.choice("sort", "sort", "argsort", "top", "pairs", "median", "descending")
    if form == "top":
        return f"lax.top_k({x}, {draw.size(1, shape[-1])})"
    if form == "pairs":
        y = draw.parameter(shape, draw.choice("float32", "int32"))
        return f"lax.sort(({x}, {y}), dimension={axis}, num_keys={draw.integer(1, 2)})"
    if form == "median" and dtype == "float32":
        return f"jnp.median({x}, {axis})"
    if form == "descending":
        return f"jnp.sort({x}, {axis}, descending=True)"
    return f"jnp.{'argsort' if form == 'argsort' else 'sort'}({x}, {axis})"


def fourier(draw: Draw) -> str:
    """Draw a Fourier transform: complex, real, inverse, of one or two dimensions."""
    length = draw.size(4, 2**14)
    rows = draw.size(1, max(1, 2**18 // length))
    double = draw.chance(0.15)
    form = draw.choice("fft", "ifft", "rfft", "irfft", "fft2", "filter")
    real, both = ("float64", "complex128") if double else ("float32", "complex64")
    if form == "fft2":
        side = draw.size(2, 256)
        x = draw.parameter((draw.size(1, 4), side, draw.size(2, 256)), both)
        return f"jnp.fft.fft2({x})"
    if form == "filter":
        x = draw.parameter((rows, length), real)
        taps = draw.parameter((length // 2 + 1,), both)
        return f"jnp.fft.irfft(jnp.fft.rfft({x}) * {taps}, n={length})"
    x = draw.parameter((rows, length), real if form == "rfft" else both)
    return draw.choice(f"jnp.fft.{form}({x})", f"jnp.abs(jnp.fft.{form}({x}))")


def linear_algebra(draw: Draw) -> str:
    """Draw a factor, a solution or a decomposition of one matrix or several."""
    dtype = draw.weighted({"float32": 6, "float64": 2})
    form = draw.choice("cholesky", "solve", "triangular", "qr", "eigh", "svd", "inv", "det", "lu")
    most = 128 if form in ("eigh", "svd") else 384
    size = draw.size(2, most)
    batch = (draw.size(2, max(2, min(64, 2**18 // size**2))),) if draw.chance(0.35) else ()
    if form in ("eigh", "svd") and batch:
        batch = (min(batch[0], max(2, 2**19 // size**3)),)
    a = draw.parameter((*batch, size, size), dtype, "definite")
    if form == "cholesky":
        return f"jnp.linalg.cholesky({a})"
    if form in ("solve", "triangular"):
        b = draw.parameter((*batch, size, draw.size(1, size)), dtype)
        if form == "solve":
            return f"jnp.linalg.solve({a}, {b})"
        lower, turned = draw.choice(True, False), draw.choice(True, False)
        return (
            f"lax.linalg.triangular_solve({a}, {b}, left_side=True, lower={lower}, "
            f"transpose_a={turned})"
        )
    if form == "qr":
        tall = draw.parameter((*batch, size + draw.integer(0, size), size), dtype)
        return f"[jnp.abs(part) for part in jnp.linalg.qr({tall})]"
    if form == "eigh":
        return f"jnp.linalg.eigvalsh({a})"
    if form == "svd":
        m = draw.parameter((*batch, size, draw.size(2, most)), dtype)
        return f"jnp.linalg.svd({m}, compute_uv=False)"
    if form == "lu":
        return f"jax.scipy.linalg.lu_factor({a})"
    return f"jnp.linalg.{form}({a} * 1.01)"


def random_numbers(draw: Draw) -> str:
    """Draw random numbers of a distribution, alone or put to use."""
    shape = draw.shape(draw.integer(1, 3), 2**8, 2**20)
    key = draw.parameter((2,), "uint32", "bits")
    kind = draw.choice(
        "uniform", "normal", "bits", "bernoulli", "randint", "exponential", "dropout"
    )
    dtype = draw.choice("float32", "float32", "float32", "bfloat16")
    if kind in ("bits", "bernoulli"):
        arguments = "0.3, " * (kind == "bernoulli") + f"shape={shape}"
        return f"jax.random.{kind}({key}, {arguments})"
    if kind == "randint":
        return f"jax.random.randint({key}, {shape}, 0, {draw.integer(2, 1000)})"
    if kind == "dropout":
        x = draw.parameter(shape, "float32")
        return f"jnp.where(jax.random.bernoulli({key}, 0.9, {shape}), {x} / 0.9, 0)"
    text = f"jax.random.{kind}({key}, {shape}, dtype=jnp.{dtype})"
    return draw.choice(text, text, f"jnp.mean({text}, 0)", f"{text} * 2 + 1")


FAMILIES = {
    "sorting": sorting,
    "fourier": fourier,
    "linear_algebra": linear_algebra,
    "random_numbers": random_numbers,
}
