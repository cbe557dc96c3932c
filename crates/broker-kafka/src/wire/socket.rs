//! A TCP connection whose reads and writes end at a deadline.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};

use super::Address;
use crate::deadline::Deadline;
use crate::settings::Family;

/// A socket, and when its calls give up.
#[derive(Debug)]
pub(crate) struct Socket {
    tcp: TcpStream,
    deadline: Deadline,
}

impl Socket {
    /// Connects to the first of the host's addresses that answers. Each has its share of the time: one that is dead without
    /// saying so does not stand in the way of the others.
    pub(crate) fn connect(address: &Address, family: Family, deadline: Deadline) -> io::Result<Self> {
        let fits = |to: &SocketAddr| match family {
            Family::Any => true,
            Family::V4 => to.is_ipv4(),
            Family::V6 => to.is_ipv6(),
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        let all: Vec<_> = (address.host.as_str(), address.port).to_socket_addrs()?.filter(fits).collect();
        for (to, rest) in all.iter().zip((1..=all.len() as u32).rev()) {
            let share = deadline.left() / rest;
            if share.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match TcpStream::connect_timeout(to, share) {
                Ok(tcp) => {
                    tcp.set_nodelay(true)?;
                    return Ok(Self { tcp, deadline });
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// From now on reads and writes give up then.
    pub(crate) fn until(&mut self, deadline: Deadline) {
        self.deadline = deadline;
    }

    /// What lies unread, without waiting: `None` nothing, `Some(true)` bytes, `Some(false)` the end.
    pub(crate) fn unread(&self) -> Option<bool> {
        let peek = || {
            self.tcp.set_nonblocking(true)?;
            let found = self.tcp.peek(&mut [0]);
            self.tcp.set_nonblocking(false)?;
            found
        };
        match peek() {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
            Ok(1..) => Some(true),
            Ok(0) | Err(_) => Some(false),
        }
    }

    /// What is left, as sockets take it.
    fn patience(&self) -> io::Result<Option<std::time::Duration>> {
        match self.deadline.left() {
            left if left.is_zero() => Err(io::ErrorKind::TimedOut.into()),
            std::time::Duration::MAX => Ok(None),
            left => Ok(Some(left)),
        }
    }
}

/// A time-out is `WouldBlock` on some systems: to the TLS library that would mean that it should ask again.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.tcp.set_read_timeout(self.patience()?)?;
        self.tcp.read(buf).map_err(timed_out)
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.tcp.set_write_timeout(self.patience()?)?;
        self.tcp.write(buf).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}
