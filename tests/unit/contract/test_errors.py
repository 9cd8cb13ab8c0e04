from xla_contract import errors


def subclasses(error: type[errors.XlaError]) -> set[type[errors.XlaError]]:
    return {error}.union(*(subclasses(each) for each in error.__subclasses__()))


def test_every_status_has_one_error_and_the_other_way_round() -> None:
    assert set(errors.ERROR_BY_CODE) == set(errors.StatusCode)
    for code, error in errors.ERROR_BY_CODE.items():
        assert error.code is code
    refinements = subclasses(errors.XlaError) - set(errors.ERROR_BY_CODE.values())
    # Only the root and refinements of an error with the same status are outside the table.
    for error in refinements - {errors.XlaError}:
        assert issubclass(error, errors.ERROR_BY_CODE[error.code])


def test_numbers_are_those_of_grpc() -> None:
    import grpc

    wire = {code.name: code.value[0] for code in grpc.StatusCode if code.name != "OK"}
    assert {code.name: int(code) for code in errors.StatusCode} == wire


def test_the_innermost_position_stays() -> None:
    placed = errors.ShapeError("sizes must match, got 3 and 4", hint="h").at("dot", "d.7")
    assert isinstance(placed, errors.ShapeError)
    assert str(placed) == placed.message == "dot %d.7: sizes must match, got 3 and 4"
    assert (placed.op, placed.instruction, placed.hint) == ("dot", "d.7", "h")
    assert errors.InternalError("m", incident="ab").at("dot").incident == "ab"
    assert placed.at("Compile") is placed
    assert str(errors.NotFoundError("x").at("Execute")) == "Execute: x"
