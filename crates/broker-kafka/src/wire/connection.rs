//! A connection to one broker: greeted, logged in, one call at a time.

use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion};
use millpond_broker_api::membership::code;
use millpond_broker_api::{Error, ErrorKind, Result};
use openssl::ssl::SslStream;

use super::interrupt::Registration;
use super::socket::Socket;
use super::versions::{Api, Versions, unsupported};
use super::{Address, Interrupt, sasl, text, tls};
use crate::deadline::Deadline;
use crate::error;
use crate::settings::WireSettings;

const OPEN: &str = "connect to a broker";

/// The longest answer that is read, as librdkafka's `receive.message.max.bytes`.
const LONGEST: usize = 100_000_000;

/// An open connection. After an error it is of no use any more: drop it.
#[derive(Debug)]
pub(crate) struct Connection {
    address: Address,
    stream: Stream,
    client_id: String,
    last_correlation: i32,
    versions: Versions,
    /// Something has been answered after the greeting.
    is_proven: bool,
    /// When the login is over, and before that when a new connection should be made.
    login: Option<Deadline>,
    _registration: Registration,
}

#[derive(Debug)]
enum Stream {
    Plain(Socket),
    Tls(Box<SslStream<Socket>>),
}

impl Connection {
    /// Connects, agrees on TLS and versions, logs in.
    pub(crate) fn open(
        address: &Address,
        settings: &WireSettings,
        interrupt: &Arc<Interrupt>,
        deadline: &Deadline,
    ) -> Result<Self> {
        let deadline = deadline.at_most(settings.connect_limit);
        let unreachable = |e: io::Error| {
            Error::new(ErrorKind::Retriable, OPEN)
                .with("address", address)
                .with("what", &e)
                .with("remedy", "start the broker, or check `bootstrap.servers` and what the brokers advertise")
                .caused_by(e)
        };
        let socket = Socket::connect(address, settings.family, deadline).map_err(unreachable)?;
        let registration = interrupt.register(socket.tcp()).map_err(unreachable)?;
        let stream = match &settings.security.tls {
            None => Stream::Plain(socket),
            Some(tls) => Stream::Tls(Box::new(tls::handshake(tls, address, socket)?)),
        };
        let mut connection = Self {
            address: address.clone(),
            stream,
            client_id: settings.client_id.clone(),
            last_correlation: 0,
            versions: Versions::default(),
            is_proven: false,
            login: None,
            _registration: registration,
        };
        connection.versions = connection.greet(deadline)?;
        if let Some(sasl) = &settings.security.sasl {
            let lifetime = sasl::log_in(&mut connection, sasl, deadline)?;
            connection.login = lifetime.map(|lifetime| Deadline::after(lifetime.mul_f64(0.8)));
        }
        Ok(connection)
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Whether it seems worth a call: brokers close what is idle, and whose login is over.
    pub(crate) fn is_usable(&self) -> bool {
        let unread = self.stream.socket().unread();
        // Under TLS there may be bytes that are no answer.
        let is_open = unread.is_none() || (unread == Some(true) && matches!(self.stream, Stream::Tls(_)));
        is_open && self.login.is_none_or(|login| !login.is_over())
    }

    /// Sends a request, made for the version that is spoken, and waits for its answer.
    pub(crate) fn call<R: Api>(&mut self, deadline: Deadline, request: impl FnOnce(i16) -> R) -> Result<R::Response> {
        let op = R::NAME;
        let version = self.versions.of::<R>().map_err(|e| e.with("address", &self.address))?;
        let frame = self.frame(R::KEY, &request(version), version)?;
        let answer = self.exchange(&frame, deadline).map_err(|fault| self.broken(op, fault))?;
        let unreadable = |e| {
            Error::new(ErrorKind::Fatal, op).with("what", "an answer that cannot be read").caused_by(format!("{e:#}"))
        };
        let mut rest = answer;
        ResponseHeader::decode(&mut rest, R::Response::header_version(version)).map_err(unreadable)?;
        let answer = R::Response::decode(&mut rest, version).map_err(unreadable)?;
        self.is_proven = true;
        Ok(answer)
    }

    /// Asks for the broker's versions: the first thing that is said, and so the place to find out who listens there.
    fn greet(&mut self, deadline: Deadline) -> Result<Versions> {
        for version in [3, 0] {
            let request = match version {
                0 => ApiVersionsRequest::default(),
                _ => ApiVersionsRequest::default()
                    .with_client_software_name(text("millpond"))
                    .with_client_software_version(text(env!("CARGO_PKG_VERSION"))),
            };
            let frame = self.frame(ApiKey::ApiVersions as i16, &request, version)?;
            let answer = self.exchange(&frame, deadline).map_err(|fault| self.stranger(fault))?;
            // The header of this answer is the correlation id alone, in all versions.
            match Versions::parse(answer.get(4..).unwrap_or_default(), version >= 3) {
                Ok(versions) => return Ok(versions),
                Err(Some(code::UNSUPPORTED_VERSION)) => {}
                Err(Some(code)) => return Err(error::of_broker(OPEN, code).with("address", &self.address)),
                Err(None) => return Err(self.stranger(Fault::NoKafka)),
            }
        }
        Err(unsupported("ApiVersions").with("address", &self.address))
    }

    /// A request with its header and its length in front.
    fn frame<R: Encodable + HeaderVersion>(&mut self, key: i16, request: &R, version: i16) -> Result<BytesMut> {
        self.last_correlation = self.last_correlation.wrapping_add(1);
        let header = RequestHeader::default()
            .with_client_id(Some(text(&self.client_id)))
            .with_request_api_key(key)
            .with_request_api_version(version)
            .with_correlation_id(self.last_correlation);
        let mut body = BytesMut::new();
        let encoded =
            header.encode(&mut body, R::header_version(version)).and_then(|()| request.encode(&mut body, version));
        // What does not fit into the protocol is a text that is too long, or an error of ours.
        let unfit = |e: String| Error::new(ErrorKind::Fatal, "encode a request").with("request", key).caused_by(e);
        encoded.map_err(|e| unfit(format!("{e:#}")))?;
        let len = i32::try_from(body.len()).map_err(|e| unfit(e.to_string()))?;
        let mut frame = BytesMut::with_capacity(body.len() + 4);
        frame.put_i32(len);
        frame.extend_from_slice(&body);
        Ok(frame)
    }

    /// Sends a frame; answers with the frame that comes back, without its length.
    fn exchange(&mut self, frame: &[u8], deadline: Deadline) -> std::result::Result<Bytes, Fault> {
        self.stream.until(deadline);
        self.stream.write_all(frame)?;
        self.stream.flush()?;
        let mut len = [0; 4];
        self.stream.read_exact(&mut len)?;
        if matches!(len, [0x15, 0x03, ..]) {
            return Err(Fault::TlsAlert);
        }
        let len = usize::try_from(i32::from_be_bytes(len)).map_err(|_| Fault::NoKafka)?;
        match len {
            0..4 => return Err(Fault::NoKafka),
            4..=LONGEST => {}
            _ => return Err(Fault::TooLong(len)),
        }
        // Grows with what comes, not with what the length claims.
        let mut answer = Vec::new();
        (&mut self.stream).take(len as u64).read_to_end(&mut answer)?;
        if answer.len() < len {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        match answer.first_chunk::<4>() {
            Some(id) if i32::from_be_bytes(*id) == self.last_correlation => Ok(answer.into()),
            _ => Err(Fault::NotOurs),
        }
    }

    /// A fault before it was clear that there is a Kafka broker at all.
    fn stranger(&self, fault: Fault) -> Error {
        let wrong = match &self.stream {
            Stream::Plain(_) => "not a Kafka broker, or TLS is expected on this port",
            Stream::Tls(_) => "not a Kafka broker",
        };
        let closed = match &self.stream {
            Stream::Plain(_) => {
                "the connection was closed at once: not a Kafka broker, or TLS is expected on this port"
            }
            Stream::Tls(_) => {
                "the connection was closed at once: not a Kafka broker, or a certificate of ours is expected"
            }
        };
        let error = |kind, what: &str| {
            Error::new(kind, OPEN)
                .with("address", &self.address)
                .with("what", what)
                .with("remedy", "check the port in `bootstrap.servers` and `security.protocol`")
        };
        match fault {
            Fault::Io(e) if e.kind() == io::ErrorKind::TimedOut => {
                error(ErrorKind::Retriable, "no answer in time: overloaded, or not a Kafka broker").caused_by(e)
            }
            Fault::Io(e) if is_tls(&e) => self.certificate_wanted(OPEN, e),
            // A broker that is stopping does this, too.
            Fault::Io(e) => error(ErrorKind::Retriable, closed).caused_by(e),
            Fault::TlsAlert => error(ErrorKind::Fatal, "TLS is expected on this port"),
            Fault::NoKafka | Fault::TooLong(_) | Fault::NotOurs => error(ErrorKind::Fatal, wrong),
        }
    }

    /// An alert of TLS. In its version 1.3 the broker looks at our certificate after the agreement.
    fn certificate_wanted(&self, op: &'static str, cause: io::Error) -> Error {
        Error::new(ErrorKind::Fatal, op)
            .with("address", &self.address)
            .with("what", "the broker wants a certificate, or does not trust ours")
            .with("remedy", "set `ssl.certificate.location` and `ssl.key.location`, or `ssl.keystore.location`")
            .caused_by(cause)
    }

    /// A fault of a call to a broker.
    fn broken(&self, op: &'static str, fault: Fault) -> Error {
        let error = |kind| Error::new(kind, op).with("address", &self.address);
        match fault {
            Fault::Io(e) if e.kind() == io::ErrorKind::TimedOut => {
                error(ErrorKind::Retriable).with("what", "no answer in time").caused_by(e)
            }
            Fault::Io(e) if is_tls(&e) && !self.is_proven => self.certificate_wanted(op, e),
            // A broker that wants a login ends the connection instead of saying so.
            Fault::Io(e) if !self.is_proven => error(ErrorKind::Retriable)
                .with("what", "the connection was closed")
                .with("remedy", "the broker is stopping, or SASL is expected on this port: check `security.protocol`")
                .caused_by(e),
            Fault::Io(e) => error(ErrorKind::Retriable).with("what", "the connection was closed").caused_by(e),
            Fault::TooLong(len) => error(ErrorKind::Fatal)
                .with("what", "an answer that is too long")
                .with("bytes", len)
                .with("limit", LONGEST),
            Fault::TlsAlert | Fault::NoKafka | Fault::NotOurs => {
                error(ErrorKind::Retriable).with("what", "an answer that belongs to no request")
            }
        }
    }
}

/// Whether an error was made by TLS, not by the network. A peer that ends the connection without saying so, as one that is
/// killed does, is the network's: OpenSSL calls that an error of its protocol.
fn is_tls(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<openssl::ssl::Error>());
    let stack = inner.and_then(|e| e.ssl_error());
    stack.is_some_and(|stack| !stack.errors().iter().any(|e| e.reason() == Some("unexpected eof while reading")))
}

/// What may happen instead of an answer.
#[derive(Debug)]
enum Fault {
    Io(io::Error),
    /// A message of TLS came where plain text was expected.
    TlsAlert,
    /// A length that no answer has.
    NoKafka,
    TooLong(usize),
    /// The correlation id of something else.
    NotOurs,
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Stream {
    fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref(),
        }
    }

    fn until(&mut self, deadline: Deadline) {
        match self {
            Self::Plain(socket) => socket.until(deadline),
            Self::Tls(stream) => stream.get_mut().until(deadline),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buf),
            Self::Tls(stream) => stream.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(buf),
            Self::Tls(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
