"""A GGUF model of a few thousand random weights, written with the gguf package."""

from __future__ import annotations

from pathlib import Path

WIDTH, HEADS, KEY_HEADS, LAYERS, HIDDEN = 64, 4, 2, 2, 128


def saved_gguf(file: Path) -> Path:
    """A llama with a tokenizer of bytes and one merge."""
    import gguf
    import numpy

    words = [chr(code) for code in range(33, 127)] + ["ab", "Ġ", "Ċ", "<s>", "</s>"]
    chance, size = numpy.random.default_rng(1), WIDTH // HEADS
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_dimension_count(size)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_types([3 if word in ("<s>", "</s>") else 1 for word in words])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(words.index("<s>"))
    writer.add_eos_token_id(words.index("</s>"))
    writer.add_add_bos_token(True)

    def tensor(name: str, *shape: int) -> None:
        values = chance.normal(0, 0.5, shape) if len(shape) > 1 else numpy.ones(shape)
        writer.add_tensor(name, values.astype(numpy.float32))

    tensor("token_embd.weight", len(words), WIDTH)
    tensor("output.weight", len(words), WIDTH)
    tensor("output_norm.weight", WIDTH)
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        tensor(f"{block}.attn_norm.weight", WIDTH)
        tensor(f"{block}.ffn_norm.weight", WIDTH)
        tensor(f"{block}.attn_q.weight", WIDTH, WIDTH)
        tensor(f"{block}.attn_k.weight", KEY_HEADS * size, WIDTH)
        tensor(f"{block}.attn_v.weight", KEY_HEADS * size, WIDTH)
        tensor(f"{block}.attn_output.weight", WIDTH, WIDTH)
        tensor(f"{block}.ffn_gate.weight", HIDDEN, WIDTH)
        tensor(f"{block}.ffn_up.weight", HIDDEN, WIDTH)
        tensor(f"{block}.ffn_down.weight", WIDTH, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
