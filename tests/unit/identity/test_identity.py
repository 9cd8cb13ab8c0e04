import pytest

from xla_contract.errors import UnauthenticatedError
from xla_server.identity.identity import MAX_NAME_CHARACTERS, Role, identity_name, parse_roles


def test_names_have_no_character_that_a_line_of_a_file_or_log_could_be_made_of():
    assert identity_name("cert", "Alice Smith\n*") == "cert:Alice%20Smith%0A%2A"
    assert identity_name("cert", "spiffe://team/alice") == "cert:spiffe://team/alice"


@pytest.mark.parametrize("name", ["", "a" * (MAX_NAME_CHARACTERS + 1)])
def test_names_have_some_characters_and_not_too_many(name: str):
    with pytest.raises(UnauthenticatedError, match=f"got {len(name)} from a jwt"):
        identity_name("jwt", name)


def test_roles_are_those_of_the_lines():
    roles = parse_roles(b"# who\ncert:alice admin\njwt:mallory none\n* viewer\n")
    assert roles == {"cert:alice": Role.ADMIN, "jwt:mallory": Role.NONE, "*": Role.VIEWER}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"cert:alice", "line 1: must be an identity"),
        (b"\ncert:alice admin user", "line 2: must be an identity .* got 3 fields"),
        (b"alice admin", "line 1: must be an identity"),
        (b"cert:alice root", "line 1: a role must be one of none, viewer, user, admin, got 'root'"),
        (b"cert:a user\ncert:a admin", "line 2: cert:a must have one line"),
        (b"\xff", "must be UTF-8, got byte 0"),
    ],
)
def test_lines_that_are_none(data: bytes, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        parse_roles(data)
