"""Calls of jax.numpy.linalg and jax.numpy.fft, and what in jax.numpy is no program."""

from tests.corpus.jax.calls.values import A, B, C, Group, H, S, T, V, W, X, Y, Z, each, reasons

_SQUARE = "linalg.det linalg.inv linalg.slogdet linalg.eigvals linalg.cond linalg.matrix_rank"
_ANY = (
    "linalg.svd linalg.svdvals linalg.pinv linalg.qr linalg.norm linalg.matrix_norm "
    "linalg.vector_norm linalg.trace linalg.diagonal linalg.matrix_transpose"
)
_SYMMETRIC = "linalg.cholesky linalg.eigh linalg.eigvalsh"


def linear_algebra() -> Group:
    import jax.numpy as jnp

    return {
        **each(jnp, f"{_SQUARE} linalg.eig", A),
        **each(jnp, f"{_SQUARE} linalg.eig", Z, tag="/complex"),
        **each(jnp, _SQUARE, H, tag="/batched"),
        **each(jnp, _ANY, X),
        **each(jnp, _ANY, C, tag="/complex"),
        **each(jnp, _SYMMETRIC, S),
        **each(jnp, _SYMMETRIC, H, tag="/batched"),
        **each(jnp, _SYMMETRIC, Z @ Z.conj().T, tag="/complex"),
        **each(jnp, "linalg.outer linalg.vecdot", V, W),
        **each(jnp, "linalg.tensordot", A, A),
        **each(jnp, "linalg.cross", X[:, :3], Y[:, :3]),
        **each(jnp, "linalg.matmul linalg.solve", A, B),
        **each(jnp, "linalg.solve", Z, B, tag="/complex"),
        **each(jnp, "linalg.lstsq", T[0].T, V[:4]),
        "linalg.tensorinv": (lambda a: jnp.linalg.tensorinv(a.reshape(5, 5, 1)[:, :, 0], 1), A),
        "linalg.tensorsolve": (lambda a, b: jnp.linalg.tensorsolve(a, b[:, 0]), A, B),
        "linalg.matrix_power": (lambda a: jnp.linalg.matrix_power(a, -3), S),
        "linalg.multi_dot": (lambda a, b: jnp.linalg.multi_dot([a, a, b]), A, B),
        **{
            f"linalg.norm/{kind}": (lambda a, kind=kind: jnp.linalg.norm(a, kind), A)
            for kind in ("fro", "nuc", 1, -1, 2, -2, float("inf"))
        },
        "linalg.qr/complete": (lambda b: jnp.linalg.qr(b, "complete"), B),
        "linalg.svd/full": (lambda b: jnp.linalg.svd(b, full_matrices=True), T),
        "linalg.cholesky/failing": (lambda a: jnp.linalg.cholesky(a - 50 * jnp.eye(5)), S),
    }


def transforms() -> Group:
    import jax.numpy as jnp

    return {
        **each(jnp, "fft.fft fft.ifft fft.rfft fft.ihfft fft.fftshift fft.ifftshift", V),
        **each(jnp, "fft.fft fft.ifft fft.irfft fft.hfft", C, tag="/complex"),
        **each(jnp, "fft.irfft fft.hfft", C[0]),
        **each(jnp, "fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.irfft2 fft.irfftn", C),
        **each(jnp, "fft.rfft2 fft.rfftn", T),
        **each(jnp, "fft.fft fft.ifft fft.rfft", X, tag="/padded", n=7, axis=0, norm="ortho"),
        **each(jnp, "fft.fftn fft.rfftn", T, tag="/axes", axes=(0, 2), s=(3, 5)),
        **each(jnp, "fft.fftfreq fft.rfftfreq", n=7),
    }


def gradients() -> Group:
    import jax
    import jax.numpy as jnp

    def total(function):  # type: ignore[no-untyped-def]
        return lambda *arrays: sum(
            jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(function(*arrays))
        )

    names = "cholesky inv det slogdet pinv qr svdvals eigvalsh norm"
    return {
        f"linalg.{name}/gradient": (jax.grad(total(getattr(jnp.linalg, name))), S)
        for name in names.split()
    } | {
        "linalg.eigh/gradient": (jax.grad(lambda s: jnp.linalg.eigh(s)[1][0, 0] ** 2), S),
        "linalg.solve/gradient": (jax.grad(total(jnp.linalg.solve), (0, 1)), A, B),
        "fft.rfft/gradient": (jax.grad(total(jnp.fft.rfft)), V),
        "sort/gradient": (jax.grad(lambda v, w: jnp.sum(jnp.sort(v) * w)), V, W),
        "median/gradient": (jax.grad(lambda v: jnp.median(v) ** 2), V),
        "cumprod/gradient": (jax.grad(lambda v: jnp.sum(jnp.cumprod(v))), V),
    }


PROGRAMS = (linear_algebra, transforms, gradients)

NOT_A_PROGRAM = reasons(
    {
        "a type or a description of types": "ComplexWarning dtype finfo iinfo ufunc",
        "answers from types and shapes alone, when it is traced": "broadcast_shapes can_cast "
        "einsum_path iscomplexobj isdtype isrealobj isscalar issubdtype iterable ndim "
        "promote_types result_type shape size",
        "the size of the result depends on values": "trim_zeros",
        "turns values into text, on the host": "array_repr array_str get_printoptions "
        "printoptions set_printoptions",
        "reads or writes files and foreign memory, on the host": "from_dlpack frombuffer fromfile "
        "fromiter fromstring load save savez",
    }
)
