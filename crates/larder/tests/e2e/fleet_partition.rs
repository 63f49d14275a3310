//! A fleet whose network parts: three nodes in network namespaces of their own, on a bridge, of
//! which one loses its link for a while.

use std::fs;
use std::process::Command;

use testkit::fleet_nodes::key;
use testkit::larder::larder_path;
use testkit::skip::skipped;

/// Script for a namespace of its own, with `$larder`, `$dir` and `$key` set. Lines that begin
/// with `=` are those that the test reads.
const SCRIPT: &str = r#"
set -u
ip link set lo up
ip link add br0 type bridge 2>/dev/null || { echo =NONE; exit 0; }
ip addr add 10.9.8.254/24 dev br0 && ip link set br0 up
pids= ; spaces=
# However it ends, nothing is left running.
trap 'kill -9 $pids $spaces 2>/dev/null' EXIT
of() { echo $spaces | cut -d' ' -f"$1"; }
in_node() { local n=$1; shift; nsenter -t "$(of "$n")" -n "$@"; }
# The same for what goes on behind: the process that is begun is the one that is ended.
begin_in_node() { local n=$1; shift; exec nsenter -t "$(of "$n")" -n "$@"; }
until_true() {
    for _ in $(seq 300); do "$@" && return 0; sleep 0.1; done
    echo "=TIMEOUT $*"; exit 0
}
for n in 1 2 3; do
    unshare -n sleep 300 & space=$!
    spaces="$spaces${spaces:+ }$space"
    apart() { [ "$(readlink /proc/$space/ns/net)" != "$(readlink /proc/self/ns/net)" ]; }
    until_true apart
    ip link add v$n type veth peer name e$n 2>/dev/null || { echo =NONE; exit 0; }
    ip link set e$n netns $space && ip link set v$n master br0 up
    in_node $n sh -c "ip link set lo up; ip addr add 10.9.8.$n/24 dev e$n; ip link set e$n up"
done
mkdir "$dir/site"
for page in a b c; do echo old > "$dir/site/$page.html"; done
touch -t 202001010000 "$dir"/site/*
"$larder" serve --static "$dir/site" --listen 10.9.8.254:8000 --admin off --cache "$dir/origin" \
    --cache-size 16M --memory 16M > "$dir/origin.log" 2>&1 &
pids="$pids $!"
# Whoever asked keeps a copy: the one that is cut off has what is purged meanwhile.
printf '[fleet]\npolicy = "cooperate-on-all"\n' > "$dir/larder.toml"
for n in 1 2 3; do
    begin_in_node $n "$larder" serve --config "$dir/larder.toml" --listen 10.9.8.$n:8080 \
        --reverse http://10.9.8.254:8000 --admin 127.0.0.1:9090 --cache "$dir/cache-$n" --cache-size 16M --memory 16M \
        --fleet 10.9.8.$n:3130 --join 10.9.8.1:3130 --join 10.9.8.2:3130 --fleet-node n$n \
        --fleet-key "$key" > "$dir/node-$n.log" 2>&1 &
    pids="$pids $!"
done
sees() { [ "$(in_node $1 "$larder" fleet status --json --admin 127.0.0.1:9090 2>/dev/null |
    grep -c '"state": "serving"')" = $(($2 + 1)) ]; }
fetch() { in_node $1 curl -sS --fail -m 20 -H 'Host: s.test' http://10.9.8.$1:8080/$2.html; }
for n in 1 2 3; do until_true sees $n 3; done
for n in 1 2 3; do for page in a b c; do echo "=BEFORE $n $(fetch $n $page)"; done; done
# Light load at the two that stay together.
: > "$dir/failures"
for n in 1 2; do
    while [ ! -e "$dir/stop" ]; do
        fetch $n b > /dev/null 2>> "$dir/failures" || echo "node $n" >> "$dir/failures"
        fetch $n c > /dev/null 2>> "$dir/failures" || echo "node $n" >> "$dir/failures"
    done &
    pids="$pids $!"
done
echo new > "$dir/site/a.html"
touch -t 202101010000 "$dir/site/a.html"
ip link set v3 down
told=$(in_node 1 "$larder" purge http://s.test/a.html --admin 127.0.0.1:9090 2>&1)
echo "=PURGE $?" $told
for n in 1 2; do echo "=APART $n $(fetch $n a)"; done
until_true sees 1 2
echo "=CUT $(fetch 3 b)"
ip link set v3 up
for n in 1 2 3; do until_true sees $n 3; done
# Within half a second after it sees the others it says hello to them, and hears of the purge.
sleep 1
for n in 3 1 2; do echo "=HEALED $n $(fetch $n a)"; done
touch "$dir/stop"
sleep 0.5
echo "=FAILURES $(cat "$dir/failures")"
"#;

#[test]
fn a_node_that_was_cut_off_does_not_give_out_what_was_purged_meanwhile() {
    let probe = Command::new("unshare").args(["-n", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return skipped("no network namespaces (unshare -n)");
    }
    for tool in [["ip", "-V"], ["curl", "-V"], ["nsenter", "-V"]] {
        if Command::new(tool[0]).arg(tool[1]).output().is_err() {
            return skipped(&format!("no {}", tool[0]));
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["-n", "bash", "-c", SCRIPT])
        .env("larder", larder_path())
        .env("dir", directory.path())
        .env("key", key(directory.path(), 7))
        .output()
        .expect("bash can be run");
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains("=NONE") {
        return skipped("no bridges or virtual interfaces in a network namespace");
    }
    let log = |node: u8| {
        fs::read_to_string(directory.path().join(format!("node-{node}.log"))).unwrap_or_default()
    };
    let all = format!(
        "{text}\n{}\n{}\n{}\n{}",
        String::from_utf8_lossy(&output.stderr),
        log(1),
        log(2),
        log(3)
    );
    let said = |begin: &str| -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix(begin)).map(str::trim).collect()
    };
    assert_eq!(
        said("=BEFORE "),
        ["1 old"; 3].into_iter().chain(["2 old"; 3]).chain(["3 old"; 3]).collect::<Vec<_>>(),
        "{all}"
    );
    let purge = said("=PURGE ");
    assert!(purge.len() == 1 && purge[0].starts_with("3 "), "{all}");
    assert!(purge[0].contains("NOT AT n3: ") && purge[0].contains("at 1 other node;"), "{all}");
    assert_eq!(said("=APART "), ["1 new", "2 new"], "{all}");
    assert_eq!(said("=CUT "), ["old"], "who is cut off answers from what it has: {all}");
    assert_eq!(said("=HEALED "), ["3 new", "1 new", "2 new"], "{all}");
    assert_eq!(said("=FAILURES "), [""], "{all}");
}
