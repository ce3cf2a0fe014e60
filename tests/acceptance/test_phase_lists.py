"""Lists of what is to do, in repositories in whatever state their users left them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .conftest import User

SETTINGS = """\
from benchfleet import PhaseDefinition
PHASES = [
    PhaseDefinition("phase1", ["base_line"], ["carrot_easy", "beet"], ["org/m1", "m2"]),
    PhaseDefinition("phase2", ["rag"], ["beet"], ["m2"], reruns=2),
]
RUN = ["python", "play.py"]
"""


def git(folder: Path, *words: str) -> str:
    output = ["-c", "user.name=me", "-c", "user.email=me@here", "-c", "commit.gpgSign=false"]
    done = subprocess.run(
        ["git", *output, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout


def prepared(user: User) -> Path:
    user.write(SETTINGS, "study.py")
    user.write("print('{\"score\": 1}')\n", "play.py")
    remote = user.folder / "remote.git"
    git(user.folder, "init", "-q", "--bare", str(remote))
    repo = user.folder / "repo"
    git(user.folder, "clone", "-q", str(remote), str(repo))
    (repo / "data" / "runs").mkdir(parents=True)
    (repo / "data" / "runs" / "old.json").write_text("{}")
    (repo / "tool").write_text("#!/bin/sh\n")
    (repo / "tool").chmod(0o755)
    (repo / "link").symlink_to("tool")
    git(repo, "checkout", "-q", "-b", "main")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "begin")
    git(repo, "push", "-q", "origin", "main")
    return repo


def test_lists_are_pushed_and_nothing_of_a_dirty_checkout_is_touched(user: User) -> None:
    repo = prepared(user)
    (repo / "tool").write_text("changed\n")
    (repo / "staged").write_text("staged\n")
    git(repo, "add", "staged")
    git(repo, "checkout", "-q", "--detach")
    git(repo, "config", "user.name", "Ada L")
    git(repo, "config", "user.email", "ada@example.org")
    before = git(repo, "status", "--porcelain"), git(repo, "rev-parse", "HEAD")
    words = ("phase", "generate", "study.py", "--repo", "repo", "--branch", "main")
    output = user.json(*words)
    assert output["lists"]["phase1"] == [
        "carrot_easy_org_m1_base_line_0.json", "beet_org_m1_base_line_0.json",
        "carrot_easy_m2_base_line_0.json", "beet_m2_base_line_0.json",
    ]  # fmt: skip
    assert output["lists"]["phase2"] == ["beet_m2_rag_0.json", "beet_m2_rag_1.json"]
    assert (git(repo, "status", "--porcelain"), git(repo, "rev-parse", "HEAD")) == before
    remote = user.folder / "remote.git"
    assert git(remote, "show", "main:data/phase/phase2.txt").split() == output["lists"]["phase2"]
    tree = git(remote, "ls-tree", "main")
    assert "100755 blob" in tree
    assert "120000 blob" in tree  # modes and links are as they were
    assert git(remote, "log", "-1", "--format=%an <%ae> %s", "main") == (
        "Ada L <ada@example.org> phase study: phase1 4 to do, phase2 2 to do\n"
    )
    assert "nothing changed on main" in user.run(*words).stdout


def test_what_is_done_is_left_out_also_from_a_worktree_and_without_a_remote(user: User) -> None:
    repo = prepared(user)
    git(repo, "remote", "remove", "origin")
    git(repo, "worktree", "add", "-q", "../tree", "-b", "other")
    user.run("run", "study.py", "--only", "phases=phase2", code=None)
    words = ("phase", "generate", "study.py", "--repo", "tree")
    output = user.json(*words)
    assert output["lists"] == {**output["lists"], "phase2": []}
    assert git(repo, "show", "benchfleet/phases:data/phase/phase1.txt").count("\n") == 4
    assert "is checked out" in user.run(*words, "--branch", "other", code=2).stderr
    assert "can be no branch" in user.run(*words, "--branch", "a..b", code=2).stderr


def test_a_new_branch_has_its_lists_in_the_folder_that_the_checkout_has(user: User) -> None:
    repo = prepared(user)
    (repo / "results" / "phase").mkdir(parents=True)
    (repo / "results" / "phase" / "phase1.txt").write_text("")
    git(repo, "rm", "-q", "-r", "data")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "another place")  # is not pushed
    words = ("phase", "generate", "study.py", "--repo", "repo")
    user.run(*words)
    remote = user.folder / "remote.git"
    listed = ("ls-tree", "-r", "--name-only")
    files = ["results/phase/phase1.txt", "results/phase/phase2.txt"]
    assert git(remote, *listed, "benchfleet/phases").split() == files
    user.run(*words, "--root", ".", "--branch", "top")
    user.write(SETTINGS.replace("reruns=2", "reruns=3"), "study.py")
    user.run(*words, "--branch", "top")  # its own folder counts first
    assert git(remote, *listed, "top").split() == ["phase/phase1.txt", "phase/phase2.txt"]
    assert git(remote, "show", "top:phase/phase2.txt").count("\n") == 3


def test_a_plain_folder_gets_files_and_two_results_of_one_name_are_refused(user: User) -> None:
    prepared(user)
    (user.folder / "plain" / "results" / "runs").mkdir(parents=True)
    user.run("phase", "generate", "study.py", "--repo", "plain")
    assert (user.folder / "plain/results/phase/phase2.txt").read_text().count("\n") == 2
    user.write(SETTINGS.replace('["carrot_easy", "beet"], ["org/m1", "m2"]',
                                '["a_b", "a"], ["c", "b_c"]'), "study.py")  # fmt: skip
    output = user.run("phase", "generate", "study.py", "--repo", "plain", code=2).stderr
    assert "would both be called a_b_c_base_line_0.json" in output


def test_a_dry_run_writes_nothing_anywhere(user: User) -> None:
    repo = prepared(user)
    remote = user.folder / "remote.git"
    before = git(remote, "for-each-ref"), git(repo, "for-each-ref")
    words = ("phase", "generate", "study.py", "--repo", "repo", "--ledger", "sqlite:l.db")
    output = user.json(*words, "--dry-run")
    assert (len(output["lists"]["phase1"]), output["commit"]) == (4, "")
    assert (git(remote, "for-each-ref"), git(repo, "for-each-ref")) == before
    assert not (user.folder / "l.db").exists()


def test_unknown_lines_of_a_list_stay_as_comments_and_are_named(user: User) -> None:
    repo = prepared(user)
    (repo / "data" / "phase").mkdir()
    (repo / "data" / "phase" / "phase2.txt").write_text("# mine\nsomething_else_0.json\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "by hand")
    git(repo, "push", "-q", "origin", "main")
    words = ("phase", "generate", "study.py", "--repo", "repo", "--branch", "main")
    output = user.json(*words)
    assert output["unknown"] == {"phase2": ["something_else_0.json"]}
    lines = git(user.folder / "remote.git", "show", "main:data/phase/phase2.txt").splitlines()
    assert lines[-2:] == ["# mine", "# something_else_0.json"]
    assert user.json(*words)["commit"] == ""
