from pydantic import SecretStr

from spark_jobs.config.servers import Endpoint, MySQL


def test_an_endpoint_has_what_it_does_not_say_from_what_all_share() -> None:
    shared = MySQL(user="repl", password=SecretStr("secret"), port=3307, read_timeout=5)
    server = Endpoint(host="db2", user="reader").server(shared)
    assert (server.host, server.user, server.port, server.read_timeout) == ("db2", "reader", 3307, 5)
    assert "secret" not in repr(server)
