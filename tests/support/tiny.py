"""Transformers two layers deep and 32 wide, made from a config, and a tokenizer made from words."""

import string

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2Model,
    MPNetConfig,
    MPNetModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5Model,
)

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = ("heart", "disease", "cold", "fever", "attack", "diabetes", "type", "##ache", "head", "##s")
VOCABULARY = (
    *SPECIAL,
    *WORDS,
    *string.ascii_lowercase,
    *(f"##{c}" for c in string.ascii_lowercase),
)

_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_SIZES |= {"intermediate_size": 64, "vocab_size": len(VOCABULARY)}
_STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def bert(**changes):
    config = BertConfig(**_SIZES | _STILL | {"max_position_embeddings": 512} | changes)
    return _made(BertModel, config)


def roberta(**changes):
    config = RobertaConfig(**_SIZES | _STILL | {"max_position_embeddings": 514} | changes)
    return _made(RobertaModel, config)


def mpnet():
    return _made(MPNetModel, MPNetConfig(**_SIZES, **_STILL, max_position_embeddings=514))


def distilbert():
    sizes = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
    config = DistilBertConfig(
        **sizes, vocab_size=len(VOCABULARY), dropout=0.0, attention_dropout=0.0
    )
    return _made(DistilBertModel, config)


def t5():
    """No encoder: it has a decoder."""
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
    return _made(T5Model, T5Config(**sizes, vocab_size=len(VOCABULARY), decoder_start_token_id=0))


def gpt2():
    """No encoder: it reads from left to right."""
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 2, "eos_token_id": 3}
    return _made(GPT2Model, GPT2Config(**sizes, vocab_size=len(VOCABULARY)))


def _made(kind, config):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = kind(config)
        # The default spread of 0.02 makes all vectors alike in so small a model.
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.3)
            else:
                parameter.data += torch.randn_like(parameter) * 0.1
    return model.eval()


def word_pieces(words=VOCABULARY, *, max_length=None):
    """A `tokenizers.Tokenizer` as BERT has it; truncates to `max_length`."""
    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, numbers[name]) for name in ("[CLS]", "[SEP]")],
    )
    if max_length is not None:
        tokenizer.enable_truncation(max_length)
    return tokenizer


def tokenizer(words=VOCABULARY):
    """The same, as transformers wraps it."""
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=word_pieces(words), **names)


def checkpoint(path, model):
    """A folder with a model and its tokenizer, as Hugging Face has it."""
    model.save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path
