//! Socket information that no safe interface provides.

use std::ffi::c_int;
use std::io;
use std::os::fd::AsFd;

/// `SIOCOUTQ` of `linux/sockios.h`.
const UNACKNOWLEDGED: u32 = 0x5411;

/// Returns the number of bytes written to a TCP socket that its peer has not acknowledged.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<usize> {
    type Question = rustix::ioctl::Getter<{ UNACKNOWLEDGED as rustix::ioctl::Opcode }, c_int>;
    // SAFETY: for this request the kernel writes one `int` (tcp(7)), on any socket.
    let bytes = unsafe { rustix::ioctl::ioctl(socket, Question::new()) }?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_was_answered_was_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        for _ in 0..1000 {
            near.write_all(b"request").unwrap();
            far.read_exact(&mut [0; 7]).unwrap();
            far.write_all(b"answer").unwrap();
            near.read_exact(&mut [0; 6]).unwrap();
            assert_eq!(unacknowledged(&near).unwrap(), 0);
        }
        near.set_nonblocking(true).unwrap();
        // Bytes beyond the peer's receive buffer stay here.
        while near.write(&[0; 65_536]).is_ok() {}
        assert!(unacknowledged(&near).unwrap() > 0);
    }
}
