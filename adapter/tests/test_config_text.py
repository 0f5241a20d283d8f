"""config.yaml as people write it, edited as text. The reference is PyYAML, as in Hermes."""

import pytest
from adapter import config_check, config_text
from adapter.config_text import Unsure, add_to_list, put_block, remove_block, remove_from_list

yaml = pytest.importorskip("yaml")

ENABLED, DISABLED = ("plugins", "enabled"), ("plugins", "disabled")
SERVER = ("mcp_servers", "hermes-bridge")
BLOCK = ["url: https://relay.example/mcp", "headers:", '  Authorization: "Bearer ${HERMES_BRIDGE_TOKEN}"', "timeout: 300"]

REAL_LIFE = """\
# The configuration of our support bot. Do not touch!   (really)
%s
model:
  default: "anthropic/claude"   # quoted on purpose
  provider: openrouter
  base_url: 'https://example.org/v1'

defaults: &defaults
  timeout: 0755        # octal by YAML 1.1
  verbose: no
  since: 2024-01-31

agents:
  one: {<<: *defaults, name: 'eins: zwei'}
  two:
    <<: *defaults
    prompt: |
      plugins:
        enabled: [nonsense]
      # not a comment
    folded: >-
      a
      b

security:
  tirith_enabled: no
  allow: yes
  mode: 0o17
  window: 12:30:45
""".replace("%s\n", "")


def check(before, after, edits):
    """The edit means what it should and nothing else changed its meaning or its words."""
    assert config_check.complaint(config_check.Reader(), before, after, edits) == ""
    for line in before.splitlines():
        if not any(word in line for word in ("abled", "plugins", "mcp_servers", "hermes-bridge", "# two", "{}")):
            assert line in after.splitlines(), line


def added(before, **more):
    after = add_to_list(before, ENABLED, "hermes-bridge")
    check(before, after, [["add", "plugins", "enabled", "hermes-bridge"]])
    assert "hermes-bridge" in yaml.safe_load(after)["plugins"]["enabled"]
    assert add_to_list(after, ENABLED, "hermes-bridge") == after, "a second run changes nothing"
    return after


@pytest.mark.parametrize("tail,line", [
    ("", "    - hermes-bridge"),
    ("plugins:\n", "    - hermes-bridge"),
    ("plugins: {}\n", "    - hermes-bridge"),
    ("plugins: ~   # none yet\n", "    - hermes-bridge"),
    ("plugins:\n  disabled: []\n", "    - hermes-bridge"),
    ("plugins:\n  enabled:\n", "    - hermes-bridge"),
    ("plugins:\n  enabled: null\n  disabled: []\n", "    - hermes-bridge"),
    ("plugins:\n  enabled: []   # nothing yet\n", "  enabled: [hermes-bridge]   # nothing yet"),
    ("plugins:\n  enabled: [a, 'b']\n", "  enabled: [a, 'b', hermes-bridge]"),
    ('plugins:\n  enabled: [a, "b, c",]\n', '  enabled: [a, "b, c", hermes-bridge,]'),
    ("plugins:\n    enabled:\n        - a   # first\n        - b\n    # the end\n", "        - hermes-bridge"),
    ("plugins:\n  enabled:\n  - a\n  - b\n", "  - hermes-bridge"),
    ("plugins:\n  enabled:\n  - a\n\n  # about b\n  - b\n\n# later\nother: 1\n", "  - hermes-bridge"),
    ('"plugins":\n  "enabled":\n    - "a"\n', "    - hermes-bridge"),
    ("plugins:   # which\n  enabled: # those\n    - a\n", "    - hermes-bridge"),
])
def test_the_name_comes_into_every_usual_shape_of_the_list(tail, line):
    assert line in added(REAL_LIFE + "\n" + tail).splitlines()


def test_a_list_in_brackets_over_several_lines_keeps_its_comments():
    after = added("plugins:\n  enabled: [\n    a,   # one, [and] more\n    b    # two\n  ]\n")
    assert after == "plugins:\n  enabled: [\n    a,   # one, [and] more\n    b, hermes-bridge    # two\n  ]\n"


def test_a_name_that_is_there_in_quotes_is_there():
    for before in ("plugins:\n  enabled: ['hermes-bridge']\n", 'plugins:\n  enabled:\n    - "hermes-bridge"  # ours\n'):
        assert add_to_list(before, ENABLED, "hermes-bridge") == before


def test_windows_line_ends_stay_windows_line_ends():
    after = added("a: 1\r\nplugins:\r\n  enabled:\r\n    - a\r\n")
    assert after == "a: 1\r\nplugins:\r\n  enabled:\r\n    - a\r\n    - hermes-bridge\r\n"


def test_a_file_without_a_last_line_end_gets_one_only_where_it_must():
    assert added("a: 1") == "a: 1\n\nplugins:\n  enabled:\n    - hermes-bridge\n"
    assert added("plugins:\n  enabled: [a]") == "plugins:\n  enabled: [a, hermes-bridge]"
    assert added("plugins:\n  enabled:\n    - a") == "plugins:\n  enabled:\n    - a\n    - hermes-bridge\n"


def test_an_empty_file_and_one_of_comments_only():
    assert added("# made by a program\n{}\n").startswith("# made by a program\n\nplugins:\n")
    assert added("") == "plugins:\n  enabled:\n    - hermes-bridge\n"
    assert added("# nothing yet\n").startswith("# nothing yet\n\nplugins:\n")


def test_a_document_between_its_markers_and_one_with_a_byte_order_mark():
    assert added("---\na: 1\n...\n") == "---\na: 1\n\nplugins:\n  enabled:\n    - hermes-bridge\n...\n"
    assert added("\ufeffplugins:\n  enabled: [a]\nb: 2\n") == (
        "\ufeffplugins:\n  enabled: [a, hermes-bridge]\nb: 2\n")


def test_what_looks_like_our_key_inside_a_text_is_left_alone():
    before = "prompt: |\n  plugins:\n    enabled: [x]\nnote: 'plugins: no'\n"
    assert added(before).startswith(before)


@pytest.mark.parametrize("before", [
    "{plugins: {enabled: [a]}}\n",
    "plugins: {enabled: [a]}\n",
    "plugins: &p\n  enabled: &e [a]\nmore: *p\nplugins: {}\n",
    "base: &b [a]\nplugins:\n  enabled: *b\n",
    "plugins:\n  enabled: hermes\n",
    "plugins:\n  enabled: [[a], b]\n",
    "plugins: {}\nplugins: {}\n",
    "a: 1\n---\nplugins: {}\n",
    "plugins:\n\tenabled: []\n",
    "- a\n- b\n",
    "just words\n",
])
def test_what_is_not_understood_is_not_guessed(before):
    with pytest.raises(Unsure):
        add_to_list(before, ENABLED, "hermes-bridge")


def test_a_list_that_others_share_by_an_anchor_is_noticed():
    before = "plugins:\n  enabled: &mine\n    - a\nelsewhere: *mine\n"
    after = add_to_list(before, ENABLED, "hermes-bridge")
    edits = [["add", "plugins", "enabled", "hermes-bridge"]]
    assert "meaning of something else" in config_check.complaint(config_check.Reader(), before, after, edits)


@pytest.mark.parametrize("before,after", [
    ("plugins:\n  disabled:\n    - hermes-bridge\n    - b\n", "plugins:\n  disabled:\n    - b\n"),
    ("plugins:\n  disabled:\n    - hermes-bridge   # off\n", "plugins:\n  disabled: []\n"),
    ("plugins:\n  disabled: [hermes-bridge]\n", "plugins:\n  disabled: []\n"),
    ("plugins:\n  disabled: [a, hermes-bridge, b]\n", "plugins:\n  disabled: [a, b]\n"),
    ("plugins:\n  disabled: [a, 'hermes-bridge']\n", "plugins:\n  disabled: [a]\n"),
    ("plugins:\n  disabled: [hermes-bridge, a, hermes-bridge]\n", "plugins:\n  disabled: [a]\n"),
    ("plugins:\n  disabled: []\n", "plugins:\n  disabled: []\n"),
    ("plugins: {}\n", "plugins: {}\n"),
    ("a: 1\n", "a: 1\n"),
])
def test_the_name_leaves_a_list(before, after):
    assert remove_from_list(before, DISABLED, "hermes-bridge") == after
    check(before, after, [["remove", "plugins", "disabled", "hermes-bridge"]])


def test_the_mcp_server_is_added_below_the_others():
    before = REAL_LIFE + "\nmcp_servers:\n  docs:   # ours\n    url: https://docs.example/mcp\n\n# end\n"
    after = put_block(before, SERVER, BLOCK)
    check(before, after, [["put", *SERVER]])
    server = yaml.safe_load(after)["mcp_servers"]["hermes-bridge"]
    assert server == {"url": "https://relay.example/mcp", "timeout": 300,
                      "headers": {"Authorization": "Bearer ${HERMES_BRIDGE_TOKEN}"}}
    assert put_block(after, SERVER, BLOCK) == after
    assert remove_block(after, SERVER) == before


def test_an_mcp_server_of_the_original_keeps_its_own_keys_and_gets_the_new_address():
    before = ("mcp_servers:\n  hermes-bridge:\n    enabled: true\n    transport: http\n"
              "    url: \"https://old.example/mcp\"  # was\n    access_mode: read_write\n")
    after = put_block(before, SERVER, BLOCK)
    assert after == before.replace('"https://old.example/mcp"', "https://relay.example/mcp")


def test_the_last_mcp_server_leaves_an_empty_mapping():
    after = remove_block(put_block("a: 1\n", SERVER, BLOCK), SERVER)
    assert after == "a: 1\n\nmcp_servers: {}\n"
    assert remove_block("a: 1\n", SERVER) == "a: 1\n"


def test_values_keep_their_yaml_1_1_meaning():
    before = yaml.safe_load(REAL_LIFE)
    after = yaml.safe_load(put_block(add_to_list(REAL_LIFE, ENABLED, "hermes-bridge"), SERVER, BLOCK))
    assert {key: after[key] for key in before} == before
    assert before["security"] == {"tirith_enabled": False, "allow": True, "mode": "0o17", "window": 45045}
    assert before["defaults"]["timeout"] == 493
