"""The list of operators that an imported SavedModel may have; test_saved_model.py attacks it."""

from exporters.importing.tensorflow_operators import COMPUTING


def test_no_operator_of_the_list_is_known_to_reach_out() -> None:
    """A list is mended by hand; this tells a slip."""
    words = ("File", "Dataset", "Summary", "Py", "Reader", "Save", "Print", "Debug", "Remote", "Rpc", "Send", "Recv")
    more = ("Session", "Xla", "Collective", "Iterator", "Tpu", "TPU", "Queue", "Host", "Shard", "Checkpoint", "Write")
    allowed = {name for name in COMPUTING if name.startswith("TensorArrayWrite")}
    assert not {name for name in COMPUTING - allowed for word in (*words, *more) if word in name}
