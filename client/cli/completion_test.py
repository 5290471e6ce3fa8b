#!/usr/bin/python3
"""The scripts of `tilekv completion`, run by the shells that they are for.

    completion_test.py TILEKV
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from tilekv_testing import pass_over

TILEKV = None


def run(words, folder="/"):
    result = subprocess.run(words, capture_output=True, timeout=60, cwd=folder, text=True, check=False)
    if result.returncode != 0 or result.stderr:
        raise AssertionError(f"{words}: {result.returncode} {result.stderr}")
    return result.stdout


class Completion:
    """What must be offered, whatever the shell."""

    shell = None

    def setUp(self):
        if shutil.which(self.shell) is None:
            pass_over(f"{self.shell} is not installed")
        self.folder = tempfile.TemporaryDirectory(prefix="tilekv-completion-")
        self.addCleanup(self.folder.cleanup)
        self.script = os.path.join(self.folder.name, "script")
        with open(self.script, "w", encoding="utf-8") as script:
            script.write(run([TILEKV, "completion", self.shell]))

    def test_offers_nouns_and_words_at_the_beginning(self):
        offered = self.complete("tilekv ")
        for word in ("kv", "model", "store", "ls", "version", "help", "completion"):
            self.assertIn(word, offered)
        self.assertNotIn("get", offered)
        self.assertEqual(self.complete("tilekv mani"), {"manifest"})

    def test_offers_the_verbs_of_a_noun(self):
        self.assertEqual(self.complete("tilekv kv "), {"get", "put", "stat", "ls", "rm"})
        self.assertEqual(self.complete("tilekv model exp"), {"export"})

    def test_passes_over_options_and_their_values(self):
        self.assertEqual(self.complete("tilekv --store tilekv://h:1 -q -o json kv g"), {"get"})
        self.assertEqual(self.complete("tilekv kv -o wide st"), {"stat"})

    def test_offers_a_commands_own_options_and_those_of_every_command(self):
        offered = self.complete("tilekv kv put key --")
        self.assertLessEqual({"--chunked", "--if-absent", "--store", "--yes"}, offered)
        self.assertNotIn("--range", offered)
        self.assertIn("--range", self.complete("tilekv kv get k --ra"))

    def test_offers_the_words_that_an_option_takes(self):
        formats = {"table", "wide", "json", "jsonl"}
        self.assertEqual(self.complete("tilekv ls -o "), formats)
        self.assertEqual(self.complete("tilekv --output "), formats)
        self.assertEqual(self.complete("tilekv ls --output js"), {"json", "jsonl"})

    def test_offers_files_where_a_command_takes_one(self):
        for name in ("weights.safetensors", "a b"):
            with open(os.path.join(self.folder.name, name), "w", encoding="utf-8"):
                pass
        self.assertEqual(self.complete("tilekv model import minilm wei"), {"weights.safetensors"})
        self.assertEqual(self.complete("tilekv model import -m text minilm wei"),
                         {"weights.safetensors"})
        self.assertEqual(self.complete("tilekv model import wei"), set())

    def test_offers_shells_and_topics(self):
        self.assertEqual(self.complete("tilekv completion "), {"bash", "zsh", "fish"})
        self.assertEqual(self.complete("tilekv help exit"), {"exit-codes"})


class Bash(Completion, unittest.TestCase):
    shell = "bash"
    # As bash itself calls a function, its cutting at ':' and '=' included.
    driver = r"""
        source "$1"
        COMP_LINE=$2 COMP_POINT=${#2}
        spaced=${COMP_LINE//:/ : }
        spaced=${spaced//=/ = }
        read -ra COMP_WORDS <<<"$spaced"
        [[ $COMP_LINE == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        complete -p tilekv >/dev/null
        _tilekv tilekv "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        ((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
        """

    def complete(self, line):
        words = ["bash", "--norc", "-uc", self.driver, "driver", self.script, line]
        return set(run(words, self.folder.name).splitlines())

    def test_offers_values_behind_an_equals_sign(self):
        self.assertEqual(self.complete("tilekv ls --output=js"), {"json", "jsonl"})

    def test_offers_commands_when_nothing_is_typed_but_the_program(self):
        self.assertIn("model", self.complete("tilekv "))


class Zsh(Completion, unittest.TestCase):
    shell = "zsh"
    # The functions that zsh's completion system brings are played: what is offered is printed.
    driver = r"""
        compdef() { [[ $1 == _tilekv && $2 == tilekv ]] || print -u2 "compdef $*" }
        compset() { typed_prefix=${words[CURRENT]%%=*} }
        compadd() { shift; offer "$@" }
        _files() { offer *(N) }
        offer() {
          local word
          for word in "$@"; do
            [[ $word == ${words[CURRENT]#*=}* ]] && print -r -- $word
          done
          return 0
        }
        source $1
        words=(${(z)2})
        [[ $2 == *' ' ]] && words+=('')
        CURRENT=${#words}
        _tilekv
        """

    def complete(self, line):
        words = ["zsh", "-fc", self.driver, "driver", self.script, line]
        return set(run(words, self.folder.name).splitlines())

    def test_offers_values_behind_an_equals_sign(self):
        self.assertEqual(self.complete("tilekv ls --output=js"), {"json", "jsonl"})


class Fish(Completion, unittest.TestCase):
    shell = "fish"

    def complete(self, line):
        words = ["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]",
                 self.script, line]
        offered = run(words, self.folder.name).splitlines()
        return {word.split("\t")[0] for word in offered}


if __name__ == "__main__":
    TILEKV = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
