"""Templates, their encoding, and user names."""

import dataclasses
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vault_helpers import IDENTITY, make_matching, make_template
from voiceid import cbor
from voiceid.enrolment.matching import Matching, mean_direction
from voiceid.enrolment.names import check_name, name_key
from voiceid.enrolment.template import Template
from voiceid.errors import EnrolmentError, VaultError


def test_a_template_survives_its_encoding():
    template = make_template("Zoë d'Arc", count=4)
    again = Template.from_bytes(template.to_bytes())
    assert again.to_bytes() == template.to_bytes()
    np.testing.assert_array_equal(again.utterances, template.utterances)
    np.testing.assert_array_equal(again.embedding, template.embedding)
    assert (again.name, again.net_speech, again.owner_uid, again.utterance_count) == ("Zoë d'Arc", 9.25, 1000, 4)
    assert (again.model_name, again.model_sha256) == ("identity-test", "ab" * 32)


def test_the_embedding_is_the_mean_direction():
    template = make_template()
    mean = template.utterances.astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(template.embedding, mean / np.linalg.norm(mean), atol=1e-6)


def test_frozen_features_quantise_the_embedding_and_are_random_for_each_enrolment():
    first, second = make_template(), make_template()
    quantised = np.frombuffer(first.frozen_features[:64], np.int8).astype(float)
    cosine = quantised @ first.embedding / np.linalg.norm(quantised)
    assert cosine > 0.999
    assert first.frozen_features[:64] == second.frozen_features[:64]
    assert first.frozen_features[64:] != second.frozen_features[64:]
    assert len(first.frozen_features) == 64 + 32
    assert first.enrolment_id != second.enrolment_id
    assert first.user_id != second.user_id


def test_adaptation_leaves_the_frozen_features():
    template = make_template()
    adapted = template.adapted(make_template(seed=1, count=5).utterances)
    assert adapted.frozen_features == template.frozen_features
    assert (adapted.enrolment_id, adapted.user_id) == (template.enrolment_id, template.user_id)
    assert not np.allclose(adapted.embedding, template.embedding)
    assert (adapted.model_name, adapted.model_sha256) == (template.model_name, template.model_sha256)
    with pytest.raises(EnrolmentError, match="from dimension 64 to 32"):
        template.adapted(make_template(dimension=32).utterances)


def test_a_matching_template_of_another_model_and_dimension_stands_beside_the_enrolment():
    template = make_template()
    newer = dataclasses.replace(IDENTITY, name="identity-next", sha256="cd" * 32)
    vectors = make_template(seed=1, count=5, dimension=32).utterances
    matching = Matching.create(vectors, model=newer, enrolment_id=template.enrolment_id, net_speech=8.5)
    renewed = dataclasses.replace(template, renewed=(matching,))
    assert renewed.models == (IDENTITY.sha256, newer.sha256)
    assert renewed.for_model("ef" * 32) is None
    assert renewed.for_model(IDENTITY.sha256).embedding is template.embedding
    matched = renewed.for_model(newer.sha256)
    np.testing.assert_array_equal(matched.embedding, mean_direction(vectors))
    assert (matched.model_name, matched.utterance_count) == ("identity-next", 5)
    assert (matched.frozen_features, matched.enrolment_id) == (template.frozen_features, template.enrolment_id)


def test_a_matching_template_survives_its_encoding():
    matching = make_matching(make_template())
    again = Matching.from_bytes(matching.to_bytes())
    assert again.to_bytes() == matching.to_bytes()
    np.testing.assert_array_equal(again.utterances, matching.utterances)
    assert (again.created, again.net_speech) == (matching.created, matching.net_speech)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enrolment_id", bytes(17)),
        ("embedding", b"\0" * 256),
        ("embedding", b""),
        ("utterances", b"\0" * 4),
        ("utterances", b""),
        ("model_sha256", "xyz"),
        ("model_name", ""),
        ("created", -1),
        ("net_speech_ms", -5),
        ("extra", 1),
    ],
)
def test_a_malformed_matching_template_is_a_vault_error(key, value):
    table = cbor.decode(make_matching(make_template()).to_bytes(), where="", error=VaultError)
    with pytest.raises(VaultError, match="matching template"):
        Matching.from_bytes(cbor.encode({**table, key: value}))


@pytest.mark.parametrize(
    "utterances",
    [
        np.zeros((0, 8), np.float32),
        np.zeros((2, 8), np.float32),
        np.full((2, 8), np.nan, np.float32),
        np.full((2, 8), 2.0, np.float32),
        np.full(8, 0.35, np.float32),
        np.eye(2, 8, dtype=np.float32) * np.array([[1], [0]], np.float32),
    ],
)
def test_impossible_embeddings_are_refused(utterances):
    with pytest.raises(EnrolmentError):
        Template.create("Ada", utterances, model=IDENTITY, net_speech=9.0, owner_uid=0)


def test_two_opposite_voices_are_refused():
    vector = np.eye(1, 8, dtype=np.float32)
    with pytest.raises(EnrolmentError, match="cancel out"):
        Template.create("Ada", np.concatenate([vector, -vector]), model=IDENTITY, net_speech=9.0, owner_uid=0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("user_id", b"short"),
        ("enrolment_id", bytes(17)),
        ("embedding", b"\0" * 256),
        ("embedding", b"\0" * 255),
        ("embedding", b""),
        ("utterances", b"\0" * 4),
        ("utterances", b""),
        ("frozen_features", bytes(10)),
        ("model_sha256", "xyz"),
        ("model_name", ""),
        ("created", -1),
        ("created", True),
        ("net_speech_ms", -5),
        ("name", "../x"),
        ("owner_uid", "root"),
        ("extra", 1),
    ],
)
def test_a_malformed_record_is_a_vault_error(key, value):
    table = cbor.decode(make_template().to_bytes(), where="", error=VaultError)
    with pytest.raises(VaultError, match="template record"):
        Template.from_bytes(cbor.encode({**table, key: value}))


@given(st.binary(max_size=200))
def test_noise_is_a_vault_error(data):
    with pytest.raises(VaultError):
        Template.from_bytes(data)


@pytest.mark.parametrize("name", ["Ada", "ada.l@example.org", "Zoë", "李小龙", "O'Brien 2", "नमिता", "x", "a" * 64])
def test_names_people_have_are_taken(name):
    assert check_name(name) == unicodedata.normalize("NFC", name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "0 characters"),
        ("a" * 65, "65 characters"),
        ("../etc/passwd", "path separator"),
        ("a/b", "path separator"),
        ("a\\b", "path separator"),
        (".hidden", "start with"),
        ("-rf", "start with"),
        (" Ada", "start with"),
        ("Ada ", "space"),
        ("Ada  L", "space"),
        ("a\0b", "control"),
        ("a\nb", "control"),
        ("a\x1b[31m", "control"),
        ("a\u202eb", "invisible"),
        ("a\u200db", "invisible"),
        ("a\u2066b", "invisible"),
        ("Ada 😀", "emoji"),
        ("1\ufe0f\u20e3", "contains"),
        ("❤️", "emoji"),
        ("a\u2028b", "contains"),
        ("a\ud800b", "contains"),
        ("\u0301a", "start with"),
    ],
)
def test_other_names_are_refused_with_the_reason_and_without_echoing_them_raw(name, reason):
    with pytest.raises(EnrolmentError, match=reason) as caught:
        check_name(name)
    assert str(caught.value).isprintable()


def test_spellings_of_one_name_are_one_user():
    assert check_name("Zoe\u0308") == "Zoë"
    assert name_key("ZOË") == name_key("zoe\u0308") == name_key("Zoë")
    assert name_key("Zoe") != name_key("Zoë")
