//! Stacks as `perf script` prints them, and the step of a request to which each belongs.

/// A function on a stack, and whether it is in the kernel.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    symbol: &'a str,
    is_kernel: bool,
}

/// Steps within the kernel, by the name of the outermost matching function.
const KERNEL: [(&str, &[&str]); 4] = [
    ("kernel: io_uring, reads and writes of the device", &["io_uring", "io_submit"]),
    ("kernel: send, delivery on the loopback device", &["writev", "sendto", "sendmsg"]),
    ("kernel: receive", &["recvfrom", "recvmsg"]),
    ("kernel: waiting for sockets", &["epoll"]),
];

/// Library functions that are a step of their own, wherever they are called.
const LEAVES: [(&str, &[&str]); 3] = [
    ("copies and comparisons of memory", &["memcpy", "memmove", "memset", "memcmp"]),
    ("allocator", &["jemalloc", "_rjem", "malloc", "calloc", "je_", "RawVec"]),
    ("checksums and hashes", &["xxh", "XxHash", "twox", "siphash", "Sip13", "hash_one"]),
];

/// Crates whose functions form a step.
const CRATES: [&str; 11] = [
    "larder_store",
    "proxy",
    "upstream",
    "larder_semantics",
    "net",
    "larder_device",
    "hyper",
    "httparse",
    "tokio",
    "larder",
    "mio",
];

/// Returns the stacks, each with the innermost function first.
pub fn samples(text: &str) -> impl Iterator<Item = Vec<Frame<'_>>> {
    text.split("\n\n")
        .map(|block| block.lines().filter_map(frame).collect())
        .filter(|stack: &Vec<Frame>| !stack.is_empty())
}

/// Parses `  ADDRESS SYMBOL (OBJECT)`. Symbols may contain any characters, including brackets.
fn frame(line: &str) -> Option<Frame<'_>> {
    let (_, rest) = line.trim_start().split_once(' ')?;
    let (symbol, object) = rest.rsplit_once(" (")?;
    let is_kernel = object.contains("kernel") || object.contains("vmlinux");
    Some(Frame { symbol, is_kernel })
}

/// Returns the step to which a stack belongs.
pub fn step(stack: &[Frame]) -> String {
    let contains = |symbol: &str, words: &[&str]| words.iter().any(|word| symbol.contains(word));
    // The system call is further out than its effects: sending also wakes the reader.
    let mut kernel = stack.iter().rev().filter(|frame| frame.is_kernel).peekable();
    if kernel.peek().is_some() {
        let named = kernel.find_map(|frame| {
            KERNEL.iter().find(|(_, words)| contains(frame.symbol, words)).map(|(name, _)| *name)
        });
        return named.unwrap_or("kernel: interrupts, scheduling, all else").to_owned();
    }
    if let Some(leaf) = stack.first()
        && let Some((name, _)) = LEAVES.iter().find(|(_, words)| contains(leaf.symbol, words))
    {
        return (*name).to_owned();
    }
    let own = stack.iter().find_map(|frame| crate_of(frame.symbol));
    own.unwrap_or_else(|| "standard library and system call wrappers".to_owned())
}

/// Returns the crate of a function, and for the proxy also its module.
fn crate_of(symbol: &str) -> Option<String> {
    let mut words = symbol.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let mut found = words.by_ref().skip_while(|word| !CRATES.contains(word));
    let name = found.next()?;
    let part = found.find(|word| !word.is_empty());
    match (name, part) {
        ("proxy", Some(part)) => Some(format!("proxy::{part}")),
        _ => Some(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
        ffffffff81 tcp_rcv_established ([kernel.kallsyms])
        ffffffff82 tcp_sendmsg ([kernel.kallsyms])
        ffffffff83 do_writev ([kernel.kallsyms])
                55 proxy::downstream::answers_ahead::AnswersAhead::send (/x/larder)

                56 __memmove_avx512_unaligned_erms (/lib/libc.so.6)
                57 larder_store::core::lookup::<impl larder_store::core::Core>::find (/x/larder)

                58 <core::pin::Pin<P> as core::future::future::Future>::poll (/x/larder)
                59 <proxy::exchange::plain_hit::Reading as x>::poll (/x/larder)

                60 __GI___writev (/lib/libc.so.6)
";

    #[test]
    fn each_stack_has_its_step() {
        let steps: Vec<String> = samples(TEXT).map(|stack| step(&stack)).collect();
        assert_eq!(
            steps,
            [
                "kernel: send, delivery on the loopback device",
                "copies and comparisons of memory",
                "proxy::exchange",
                "standard library and system call wrappers",
            ]
        );
    }
}
