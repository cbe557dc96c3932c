//! Servers for tests: what they answer is written in the test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use bytes::BytesMut;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{ApiKey, BrokerId, FindCoordinatorResponse, ResponseHeader};
use kafka_protocol::protocol::{Encodable, HeaderVersion};

use super::{Address, text};
use crate::settings::{KafkaSettings, WireSettings};

/// What happens on one connection.
pub(crate) type Script = Box<dyn FnOnce(&mut Peer) + Send>;

/// A server for one connection after the other, as long as there are scripts; its port.
pub(crate) fn serve(scripts: Vec<Script>) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::Builder::new()
        .spawn(move || {
            for script in scripts {
                let Ok((stream, _)) = listener.accept() else { return };
                script(&mut Peer { stream });
            }
        })
        .unwrap();
    Address { host: "127.0.0.1".to_owned(), port }
}

/// The server's side of a connection. What goes wrong there shows at the client.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
}

/// A request as it came in.
pub(crate) struct Incoming {
    pub(crate) key: i16,
    pub(crate) version: i16,
    pub(crate) correlation: i32,
    pub(crate) bytes: Vec<u8>,
}

impl Peer {
    /// The next request; `None`: the client has gone.
    pub(crate) fn next(&mut self) -> Option<Incoming> {
        let mut len = [0; 4];
        self.stream.read_exact(&mut len).ok()?;
        let mut bytes = vec![0; u32::from_be_bytes(len) as usize];
        self.stream.read_exact(&mut bytes).ok()?;
        let int = |at: usize| i16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let correlation = i32::from_be_bytes(bytes[4..8].try_into().unwrap());
        Some(Incoming { key: int(0), version: int(2), correlation, bytes })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Answers with a correlation id and a body.
    pub(crate) fn frame(&mut self, correlation: i32, body: &[u8]) {
        let len = (body.len() as i32 + 4).to_be_bytes();
        self.send(&[&len[..], &correlation.to_be_bytes(), body].concat());
    }

    pub(crate) fn answer<R: Encodable + HeaderVersion>(&mut self, to: &Incoming, response: &R) {
        let mut bytes = BytesMut::new();
        let header = ResponseHeader::default().with_correlation_id(to.correlation);
        header.encode(&mut bytes, R::header_version(to.version)).unwrap();
        response.encode(&mut bytes, to.version).unwrap();
        self.frame(to.correlation, &bytes[4..]);
    }

    /// Greets like a broker that knows requests up to these versions.
    pub(crate) fn greet(&mut self, ranges: &[(ApiKey, i16)]) {
        let hello = self.next().unwrap();
        assert_eq!((hello.key, hello.version), (18, 3));
        let mut body = vec![0, 0, ranges.len() as u8 + 1];
        for (key, highest) in ranges {
            body.extend_from_slice(&[0, *key as u8, 0, 0, 0, *highest as u8, 0]);
        }
        body.extend_from_slice(&[0, 0, 0, 0, 0]);
        self.frame(hello.correlation, &body);
    }

    /// The port that it serves.
    pub(crate) fn port(&self) -> i32 {
        i32::from(self.stream.local_addr().unwrap().port())
    }

    /// Answers FindCoordinator with itself, broker 1.
    pub(crate) fn be_coordinator(&mut self) {
        let request = self.next().unwrap();
        assert_eq!(request.key, ApiKey::FindCoordinator as i16);
        let me = Coordinator::default().with_node_id(BrokerId(1)).with_host(text("127.0.0.1")).with_port(self.port());
        self.answer(&request, &FindCoordinatorResponse::default().with_coordinators(vec![me]));
    }

    /// Reads until the client has gone.
    pub(crate) fn drain(&mut self) {
        let _ = self.stream.read_to_end(&mut Vec::new());
    }
}

pub(crate) fn settings(rows: &[(&str, &str)]) -> WireSettings {
    let mut settings = KafkaSettings::new("127.0.0.1:1");
    for (key, value) in rows {
        settings.set(key, value).unwrap();
    }
    settings.wire().unwrap()
}
