//! TLS by the library that librdkafka uses, with the same settings.

use std::path::Path;

use millpond_broker_api::{Error, ErrorKind, Result};
use openssl::error::ErrorStack;
use openssl::pkcs12::Pkcs12;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{
    HandshakeError, MidHandshakeSslStream, SslConnector, SslConnectorBuilder, SslFiletype, SslMethod, SslStream,
    SslVerifyMode,
};
use openssl::x509::store::{X509Lookup, X509StoreBuilder};
use openssl::x509::verify::X509VerifyFlags;
use openssl::x509::{X509, X509VerifyResult};

use super::Address;
use super::socket::Socket;
use crate::security::{Pem, Tls};

const OP: &str = "set up TLS";

/// Makes the connection a secret one. Files are read anew each time, so that renewed certificates are used.
pub(crate) fn handshake(tls: &Tls, address: &Address, socket: Socket) -> Result<SslStream<Socket>> {
    let config = connector(tls)?.configure().map_err(|e| Error::new(ErrorKind::Fatal, OP).caused_by(e))?;
    let config = config.verify_hostname(tls.verifies_host && tls.verifies_certificate);
    config.connect(&address.host, socket).map_err(|e| match e {
        HandshakeError::SetupFailure(e) => Error::new(ErrorKind::Fatal, OP).with("address", address).caused_by(e),
        HandshakeError::Failure(at) | HandshakeError::WouldBlock(at) => failure(address, at),
    })
}

/// Why there is no agreement.
fn failure(address: &Address, at: MidHandshakeSslStream<Socket>) -> Error {
    let error = |kind| Error::new(kind, "agree on TLS with a broker").with("address", address);
    let verdict = at.ssl().verify_result();
    if verdict != X509VerifyResult::OK {
        return error(ErrorKind::Fatal).with("certificate of the broker", verdict.error_string()).with(
            "remedy",
            "trust its issuer by `ssl.ca.location`, or connect by a name that stands in the certificate",
        );
    }
    let cause = at.into_error();
    match cause.io_error().map(std::io::Error::kind) {
        Some(std::io::ErrorKind::TimedOut) => error(ErrorKind::Retriable).with("what", "no answer in time"),
        None if cause.ssl_error().is_some_and(|e| e.to_string().contains("alert")) => {
            error(ErrorKind::Fatal).with("what", "the broker refused").with(
                "remedy",
                "see the cause: it may want a certificate (`ssl.certificate.location`), or another version of TLS",
            )
        }
        None if cause.ssl_error().is_some() => error(ErrorKind::Fatal)
            .with("what", "not a Kafka broker, or TLS is not expected on this port")
            .with("remedy", "check the port in `bootstrap.servers` and `security.protocol`"),
        _ => error(ErrorKind::Retriable)
            .with("what", "the connection was closed: not a Kafka broker, or TLS is not expected on this port")
            .with("remedy", "check the port in `bootstrap.servers` and `security.protocol`"),
    }
    .caused_by(cause)
}

fn connector(tls: &Tls) -> Result<SslConnector> {
    let mut builder =
        SslConnector::builder(SslMethod::tls()).map_err(|e| Error::new(ErrorKind::Fatal, OP).caused_by(e))?;
    trust(&mut builder, tls)?;
    if let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) {
        present(&mut builder, &certificates("ssl.certificate.location", certificate)?, &private_key(key, tls)?)
            .map_err(|e| bad("ssl.key.location", key).caused_by(e))?;
    } else if let Some(path) = &tls.keystore {
        let (chain, key) = keystore(path, tls.keystore_password.as_deref().unwrap_or(""))?;
        present(&mut builder, &chain, &key).map_err(|e| keystore_error(path).caused_by(e))?;
    }
    if let Some(ciphers) = &tls.ciphers {
        let bad = |e| Error::new(ErrorKind::Fatal, OP).with("key", "ssl.cipher.suites").caused_by(e);
        builder.set_cipher_list(ciphers).map_err(bad)?;
    }
    Ok(builder.build())
}

/// Whom to believe: if anybody is named, nobody else.
fn trust(builder: &mut SslConnectorBuilder, tls: &Tls) -> Result<()> {
    if !tls.verifies_certificate {
        builder.set_verify(SslVerifyMode::NONE);
    }
    let error = |key: &'static str| move |e: ErrorStack| Error::new(ErrorKind::Fatal, OP).with("key", key).caused_by(e);
    if let Some(ca) = &tls.ca {
        let error = error("ssl.ca.location");
        let mut store = X509StoreBuilder::new().map_err(error)?;
        match ca {
            Pem::File(path) if Path::new(path).is_dir() => {
                let lookup = store.add_lookup(X509Lookup::hash_dir()).map_err(error)?;
                lookup.add_dir(path, SslFiletype::PEM).map_err(error)?;
            }
            pem => {
                for certificate in certificates("ssl.ca.location", pem)? {
                    store.add_cert(certificate).map_err(error)?;
                }
            }
        }
        builder.set_cert_store(store.build());
    }
    if let Some(path) = &tls.crl {
        let error = error("ssl.crl.location");
        let store = builder.cert_store_mut();
        let lookup = store.add_lookup(X509Lookup::file()).map_err(error)?;
        lookup.load_crl_file(path, SslFiletype::PEM).map_err(error)?;
        store.set_flags(X509VerifyFlags::CRL_CHECK).map_err(error)?;
    }
    Ok(())
}

/// Shows who we are.
fn present(
    builder: &mut SslConnectorBuilder,
    chain: &[X509],
    key: &PKey<Private>,
) -> std::result::Result<(), ErrorStack> {
    let mut chain = chain.iter();
    if let Some(own) = chain.next() {
        builder.set_certificate(own)?;
    }
    for issuer in chain {
        builder.add_extra_chain_cert(issuer.clone())?;
    }
    builder.set_private_key(key)?;
    builder.check_private_key()
}

fn certificates(key: &'static str, pem: &Pem) -> Result<Vec<X509>> {
    let found = X509::stack_from_pem(&content(key, pem)?).map_err(|e| bad(key, pem).caused_by(e))?;
    if found.is_empty() { Err(bad(key, pem).with("what", "no certificate in PEM")) } else { Ok(found) }
}

fn private_key(pem: &Pem, tls: &Tls) -> Result<PKey<Private>> {
    let key = "ssl.key.location";
    // Without a password the answer is an empty one: the library would ask on the terminal.
    let password = tls.key_password.as_deref().unwrap_or("").as_bytes();
    let answer = |buf: &mut [u8]| {
        let Some(place) = buf.get_mut(..password.len()) else { return Ok(0) };
        place.copy_from_slice(password);
        Ok(password.len())
    };
    PKey::private_key_from_pem_callback(&content(key, pem)?, answer)
        .map_err(|e| bad(key, pem).with("remedy", "use PEM, and check `ssl.key.password`").caused_by(e))
}

fn keystore(path: &str, password: &str) -> Result<(Vec<X509>, PKey<Private>)> {
    let error = || keystore_error(path).with("remedy", "use PKCS#12, and check `ssl.keystore.password`");
    let bytes = std::fs::read(path).map_err(|e| keystore_error(path).with("what", &e).caused_by(e))?;
    let parsed = Pkcs12::from_der(&bytes).and_then(|p| p.parse2(password)).map_err(|e| error().caused_by(e))?;
    let (Some(own), Some(key)) = (parsed.cert, parsed.pkey) else { return Err(error()) };
    let issuers = parsed.ca.into_iter().flatten();
    Ok((std::iter::once(own).chain(issuers).collect(), key))
}

fn content(key: &'static str, pem: &Pem) -> Result<Vec<u8>> {
    match pem {
        Pem::Text(text) => Ok(text.as_bytes().to_vec()),
        Pem::File(path) => std::fs::read(path).map_err(|e| bad(key, pem).with("what", &e).caused_by(e)),
    }
}

fn bad(key: &'static str, pem: &Pem) -> Error {
    let error = Error::new(ErrorKind::Fatal, OP).with("key", key);
    match pem {
        Pem::File(path) => error.with("file", path),
        Pem::Text(_) => error,
    }
}

fn keystore_error(path: &str) -> Error {
    Error::new(ErrorKind::Fatal, OP).with("key", "ssl.keystore.location").with("file", path)
}
