"""Calls of jax.scipy.special and of the distributions in jax.scipy.stats."""

from tests.corpus.jax.calls.values import SPECIAL, C, Group, K, M, N, P, Q, U, V, X, Y, Z, each

_ONE = (
    "dawsn entr erf erfc erfcx expit gamma i0 i0e i1 i1e log_ndtr log_softmax logsumexp ndtr "
    "softmax fresnel sici gammaln loggamma gammasgn digamma"
)
_PAIRS = "beta betaln boxcox boxcox1p gammainc gammaincc kl_div rel_entr xlog1py xlogy poch comb"

_LOCATED = "cdf logcdf logpdf logsf pdf sf"
_CONTINUOUS = {
    "cauchy": _LOCATED,
    "expon": _LOCATED,
    "gumbel_l": _LOCATED,
    "gumbel_r": _LOCATED,
    "laplace": "cdf logpdf pdf",
    "logistic": "cdf logpdf pdf sf",
    "norm": _LOCATED,
    "uniform": "cdf logpdf pdf",
}
_INVERSES = (
    "cauchy.ppf cauchy.isf expon.ppf gumbel_l.ppf gumbel_r.ppf logistic.ppf logistic.isf norm.ppf "
    "norm.isf uniform.ppf"
)
_OF_ONE_PARAMETER = {
    "chi2": _LOCATED,
    "gamma": _LOCATED,
    "pareto": _LOCATED,
    "t": "logpdf pdf",
    "gennorm": "cdf logpdf pdf",
    "vonmises": "logpdf pdf",
}


def _spread(table: dict[str, str]) -> str:
    return " ".join(f"{family}.{name}" for family, names in table.items() for name in names.split())


def special() -> Group:
    import jax.numpy as jnp
    import jax.scipy.special as special

    return {
        **each(special, _ONE, X),
        **each(
            special, "erf erfc expit i0 i1e log_ndtr ndtr gammaln entr", SPECIAL, tag="/special"
        ),
        **each(special, "exp1 factorial spence", P),
        **each(special, "erfinv logit ndtri", U),
        **each(special, _PAIRS, P, Q),
        **each(special, "gammaln gamma digamma erfcx dawsn", 4 * X, tag="/wide"),
        **each(special, "wofz", C),
        **each(special, "zeta", P + 1, Q),
        **each(special, "owens_t", X, Y),
        **each(special, "logsumexp softmax", C.real, tag="/axis", axis=0),
        "bernoulli": (lambda: special.bernoulli(8),),
        "bessel_jn": (lambda p: special.bessel_jn(p[0], v=3), P),
        "betainc": (special.betainc, P, Q, U),
        "expn": (lambda p: special.expn(jnp.array([[1], [2], [3], [5]]), p), P),
        "hyp1f1": (special.hyp1f1, P, Q, X),
        "hyp2f1": (special.hyp2f1, P, Q, P + 1, U - 0.2),
        "multigammaln": (lambda p: special.multigammaln(p + 3, 3), P),
        "polygamma": (lambda m, p: special.polygamma(m, p), M, P),
        "sph_harm_y": (
            lambda k, u: special.sph_harm_y(k, k // 2, u, 2 * u, n_max=4),
            K,
            U[0],
        ),
        # One element at a time in loops: a few are enough.
        "expi": (special.expi, 4 * X[0, :3]),
        "logsumexp/weights": (lambda x, y: special.logsumexp(x, 1, y, return_sign=True), X, Y),
        "zeta/one": (lambda p: special.zeta(p + 1.5, 1.0), P),
    }


def continuous() -> Group:
    import jax.scipy.stats as stats

    trunc = _spread({"truncnorm": _LOCATED})
    return {
        **each(stats, _spread(_CONTINUOUS), X, 0.3, 1.7),
        **each(stats, _spread(_CONTINUOUS), P, tag="/standard"),
        **each(stats, _INVERSES, U, 0.3, 1.7),
        **each(stats, _spread(_OF_ONE_PARAMETER), P + 1, Q),
        **each(stats, "pareto.ppf", U, Q),
        **each(stats, _spread({"beta": _LOCATED}), U, P, Q),
        **each(stats, trunc, X, -1.0, 1.5, 0.2, 1.1),
        **each(stats, "wrapcauchy.logpdf wrapcauchy.pdf", 6 * U, 0.4),
        **each(stats, "dirichlet.logpdf dirichlet.pdf", U[0] / U[0].sum(), P[0]),
        **each(
            stats,
            "multivariate_normal.logpdf multivariate_normal.pdf",
            V[:5],
            Y[0, :5],
            (Z @ Z.conj().T).real,
        ),
    }


def discrete() -> Group:
    import jax.scipy.stats as stats

    def masses(family: str) -> str:
        return f"{family}.logpmf {family}.pmf"

    return {
        **each(stats, "bernoulli.cdf " + masses("bernoulli"), N % 2, U),
        "bernoulli.ppf": (stats.bernoulli.ppf, U, U[::-1]),
        **each(stats, masses("betabinom"), M, 7, P, Q),
        **each(stats, masses("binom"), M, 7, U),
        **each(stats, masses("geom"), M, U),
        **each(stats, masses("nbinom"), M, P + 1, U),
        **each(stats, "poisson.cdf " + masses("poisson"), M, P),
        "poisson.entropy": (stats.poisson.entropy, P),
        **each(stats, masses("multinomial"), K[:4], 9, U[0, :4] / U[0, :4].sum()),
    }


PROGRAMS = (special, continuous, discrete)
