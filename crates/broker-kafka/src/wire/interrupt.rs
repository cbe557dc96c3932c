//! Ends blocking calls from another thread, by shutting their sockets down.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// The sockets that are in use, until it is set off. It stays set off.
#[derive(Debug, Default)]
pub(crate) struct Interrupt {
    state: Mutex<Sockets>,
}

#[derive(Debug, Default)]
struct Sockets {
    is_off: bool,
    registered: u64,
    open: BTreeMap<u64, TcpStream>,
}

/// A socket's place in an [`Interrupt`], for as long as it lives.
#[derive(Debug)]
pub(crate) struct Registration {
    interrupt: Arc<Interrupt>,
    number: u64,
}

impl Interrupt {
    fn lock(&self) -> std::sync::MutexGuard<'_, Sockets> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches over a socket. `Err`: it was set off before, or the socket is broken.
    pub(crate) fn register(self: &Arc<Self>, socket: &TcpStream) -> std::io::Result<Registration> {
        let mut sockets = self.lock();
        if sockets.is_off {
            return Err(std::io::Error::new(std::io::ErrorKind::ConnectionAborted, "the client is being closed"));
        }
        sockets.registered += 1;
        let number = sockets.registered;
        sockets.open.insert(number, socket.try_clone()?);
        Ok(Registration { interrupt: self.clone(), number })
    }

    /// How many sockets it watches over.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.lock().open.len()
    }

    /// Ends what runs and what would begin.
    pub(crate) fn set_off(&self) {
        let mut sockets = self.lock();
        sockets.is_off = true;
        for socket in sockets.open.values() {
            // A socket that cannot be shut down is closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.interrupt.lock().open.remove(&self.number);
    }
}
