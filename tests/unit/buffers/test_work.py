from tests.unit.passes.passing import stated
from tests.work_ratio.ratios import operations_ratio, transcendentals_ratio
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.work import ProgramWork, Work, work_once
from xla_server.evaluator.cost_analysis import Cost


def test_a_module_is_counted_once_for_each_element() -> None:
    module = stated(
        ["f32[10,20]"],
        "f32[10] reduce(e, zero), dimensions={1}, to_apply=add",
        "zero = f32[] constant(0)",
        "e = f32[10,20] exponential(x0)",
    )
    work = work_once(module)
    # Each element is combined with the accumulator, which begins with the initial value.
    assert work.cost == Cost(flops=200, transcendentals=200)
    assert work.bytes == 2 * 800 + 800 + 4 + 40
    assert str(work) == "200 operations, 200 transcendental, 2444 bytes"


def test_code_is_counted_with_the_epilogues_of_products_and_with_loops() -> None:
    module = stated(
        ["f32[40,50]", "f32[50,60]", "f32[60]"],
        "f32[40,60] exponential(biased)",
        "product = f32[40,60] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "bias = f32[40,60] broadcast(x2), dimensions={1}",
        "biased = f32[40,60] add(product, bias)",
    )
    work = compile_module(module).work
    assert work.once.cost == Cost(flops=2 * 40 * 50 * 60 + 2400, transcendentals=2400)
    assert work.done.cost == work.once.cost


def test_ratios_of_nothing() -> None:
    nothing, something = Work(Cost(), 0), Work(Cost(flops=3), 8)
    assert operations_ratio(ProgramWork(nothing, nothing)) == 1
    assert operations_ratio(ProgramWork(nothing, something)) == float("inf")
    assert operations_ratio(ProgramWork(something, something)) == 1
    assert transcendentals_ratio(ProgramWork(something, something)) == 1
