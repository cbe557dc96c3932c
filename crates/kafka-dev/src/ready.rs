//! Whether a broker answers: by a request for metadata, since a port that accepts is open long before.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};

/// A request for metadata of version 1 with no topics, its length first: correlation 1, client `kafka-dev`.
const REQUEST: &[u8] = b"\0\0\0\x17\0\x03\0\x01\0\0\0\x01\0\x09kafka-dev\0\0\0\0";

/// An answer to it from a cluster of any size that somebody tests on stays far below this.
const MAX_ANSWER: usize = 1 << 20;

/// Waits until the broker at `HOST:PORT` answers on a plaintext listener, knows itself and a controller, and so takes
/// requests of all kinds.
pub fn wait_until_ready(address: &str, patience: Duration) -> Result<()> {
    let deadline = Deadline::after(patience);
    wait(address, deadline, || Ok(()))
}

/// As above, and looks every time whether there is still something to wait for.
pub(crate) fn wait(address: &str, deadline: Deadline, mut lives: impl FnMut() -> Result<()>) -> Result<()> {
    loop {
        let left = deadline.left().unwrap_or(Duration::from_millis(1));
        let why = match ask(address, left.min(Duration::from_secs(5))) {
            Ok(true) => return Ok(()),
            Ok(false) => "it knows no broker or no controller yet".to_owned(),
            Err(error) => error.to_string(),
        };
        lives()?;
        if !deadline.pause() {
            let what = format!("no broker answers: {why}; address=`{address}`");
            return Err(Error::new(ErrorKind::Broker, what));
        }
    }
}

/// Asks once. A broker that is still fenced does not list itself.
fn ask(address: &str, patience: Duration) -> io::Result<bool> {
    let found = address.to_socket_addrs()?.next();
    let found = found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host has no address"))?;
    let mut stream = TcpStream::connect_timeout(&found, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.write_all(REQUEST)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_ANSWER {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "what answers is no Kafka broker"));
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    let cut = || io::Error::new(io::ErrorKind::InvalidData, "the answer to a request for metadata is cut short");
    is_ready(&answer).ok_or_else(cut)
}

/// Whether brokers and a controller are in the answer; `None` if it is cut short.
fn is_ready(answer: &[u8]) -> Option<bool> {
    let mut rest = answer;
    let _correlation = int(&mut rest)?;
    let brokers = int(&mut rest)?;
    for _ in 0..brokers.max(0) {
        let _id = int(&mut rest)?;
        skip_string(&mut rest)?;
        let _port = int(&mut rest)?;
        skip_string(&mut rest)?;
    }
    let controller = int(&mut rest)?;
    Some(brokers > 0 && controller >= 0)
}

fn int(rest: &mut &[u8]) -> Option<i32> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(i32::from_be_bytes(*head))
}

/// A string with its length in two bytes; a negative one stands for none.
fn skip_string(rest: &mut &[u8]) -> Option<()> {
    let (head, tail) = rest.split_first_chunk()?;
    let length = usize::try_from(i16::from_be_bytes(*head)).unwrap_or(0);
    *rest = tail.get(length..)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &[u8] = b"\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x01h\0\0\x23\x84\xff\xff\0\0\0\x01\0\0\0\0";

    #[test]
    fn the_request_names_its_own_length() {
        assert_eq!(REQUEST.first_chunk().map(|head| u32::from_be_bytes(*head)), Some(REQUEST.len() as u32 - 4));
    }

    #[test]
    fn a_cluster_without_broker_or_controller_is_not_ready() {
        assert_eq!(is_ready(ONE), Some(true));
        let mut no_controller = ONE.to_vec();
        no_controller[21..25].copy_from_slice(&(-1i32).to_be_bytes());
        assert_eq!(is_ready(&no_controller), Some(false));
        assert_eq!(is_ready(b"\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0"), Some(false));
        assert_eq!(is_ready(&ONE[..20]), None);
    }

    #[test]
    fn where_nobody_listens_the_error_names_the_address() {
        let error = wait_until_ready("127.0.0.1:1", Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Broker);
        assert!(error.to_string().contains("address=`127.0.0.1:1`"), "{error}");
    }
}
