//! Tests of the network as programs see it.

use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::*;

const LONG: Duration = Duration::from_secs(3600);

fn link() -> Link {
    let delay = Duration::from_millis(10)..=Duration::from_millis(10);
    Link { delay, buffer: 8, ..Link::default() }
}

/// Returns both ends of a connection between hosts `a` and `b`, that of `a` first.
async fn pair(network: &Network) -> (Connection, Connection) {
    let (a, b) = (network.host("a"), network.host("b"));
    let listener = b.listen(80).unwrap();
    let near = a.connect(SocketAddr::new(b.address(), 80)).await.unwrap();
    let (far, from) = listener.accept().await.unwrap();
    assert_eq!(from.ip(), a.address());
    assert_eq!((near.peer_addr().port(), far.peer_addr()), (80, from));
    (near, far)
}

#[tokio::test(start_paused = true)]
async fn bytes_take_their_time_and_a_full_way_holds_the_writer() {
    let network = Network::new(1, link());
    let began = Instant::now();
    let (mut near, mut far) = pair(&network).await;
    assert_eq!(began.elapsed().as_millis(), 20);
    near.write_all(b"12345678").await.unwrap();
    assert_eq!(began.elapsed().as_millis(), 20);
    assert!(timeout(LONG, near.write_all(b"9")).await.is_err(), "there is no room");
    let began = Instant::now();
    let mut all = [0; 9];
    let (wrote, read) = tokio::join!(near.write_all(b"9"), far.read_exact(&mut all));
    wrote.unwrap();
    read.unwrap();
    assert_eq!((&all, began.elapsed().as_millis()), (b"123456789", 10));
}

#[tokio::test(start_paused = true)]
async fn one_direction_ends_and_the_other_goes_on() {
    let network = Network::new(1, link());
    let (mut near, mut far) = pair(&network).await;
    near.write_all(b"ask").await.unwrap();
    near.shutdown().await.unwrap();
    let mut text = String::new();
    far.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "ask");
    far.write_all(b"answer").await.unwrap();
    drop(far);
    text.clear();
    near.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "answer");
    assert!(near.write_all(b"x").await.is_err());
    drop(near);
    assert!(network.state().pipes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn unread_bytes_cause_a_reset_and_a_missing_listener_refuses() {
    let network = Network::new(1, link());
    let (mut near, mut far) = pair(&network).await;
    near.write_all(b"x").await.unwrap();
    drop(near);
    assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 1, "it had been sent before");
    let (near, mut far) = pair(&network).await;
    far.write_all(b"x").await.unwrap();
    drop(near);
    let error = far.read(&mut [0; 8]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    let nobody = SocketAddr::new(network.lookup("b").unwrap(), 81);
    let error = network.host("a").connect(nobody).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test(start_paused = true)]
async fn a_cut_way_holds_what_is_sent_until_it_is_whole() {
    let network = Network::new(1, link());
    let (mut near, mut far) = pair(&network).await;
    let (a, b) = (network.lookup("a").unwrap(), network.lookup("b").unwrap());
    // The other path stays whole: bytes from `b` arrive, but are not acknowledged.
    network.cut(a, b);
    near.write_all(b"asked").await.unwrap();
    far.write_all(b"12345678").await.unwrap();
    near.read_exact(&mut [0; 8]).await.unwrap();
    assert!(timeout(LONG, far.write_all(b"9")).await.is_err());
    assert!(timeout(LONG, far.read(&mut [0; 8])).await.is_err());
    let to = SocketAddr::new(b, 80);
    let listener = network.host("b").listen(80).unwrap();
    let host = network.host("a");
    let mut connecting = pin!(host.connect(to));
    assert!(timeout(LONG, &mut connecting).await.is_err());
    network.mend(a, b);
    let began = Instant::now();
    let mut text = [0; 5];
    far.read_exact(&mut text).await.unwrap();
    assert_eq!((&text, began.elapsed().as_millis()), (b"asked", 10));
    far.write_all(b"9").await.unwrap();
    connecting.await.unwrap();
    drop(listener);
    network.reset(a, b);
    assert_eq!(far.read(&mut [0; 8]).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

/// Exchanges a few hundred messages over paths that fail at random.
async fn noise(seed: u64) -> Vec<Event> {
    let delay = Duration::ZERO..=Duration::from_millis(40);
    let network = Network::new(seed, Link { delay, resets: 20_000, silences: 5_000, buffer: 100 });
    for _ in 0..20 {
        let (mut near, mut far) = pair(&network).await;
        let exchange = async {
            let mut bytes = [0; 64];
            for _ in 0..20 {
                near.write_all(&bytes).await?;
                far.read_exact(&mut bytes).await?;
                far.write_all(&bytes[..7]).await?;
                near.read_exact(&mut bytes[..7]).await?;
            }
            io::Result::Ok(())
        };
        // It ends, is reset, or nothing more arrives.
        let _ended = timeout(LONG, exchange).await;
    }
    network.events()
}

#[tokio::test(start_paused = true)]
async fn everything_follows_from_the_seed() {
    let all = [noise(1).await, noise(1).await, noise(2).await];
    assert!(all[0] == all[1] && all[0] != all[2]);
    for what in [What::Reset, What::Silent, What::Ended] {
        assert!(all[0].iter().any(|event| event.what == what), "{what:?}");
    }
}
