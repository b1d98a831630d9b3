//! The functions that create certificates: `genCA`, `genSelfSignedCert`, `genSignedCert`, their variants with a key, and `buildCustomCert`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use go_template::{Field, FromValue, FuncError, FuncMap, Function, Kind, List, Object, Param, Str, Value};

use super::clock::timed;
use super::key::{CERTIFICATE_RSA_BITS, PrivateKey};
use super::pem;
use super::x509::{Issuer, Subject, certify};
use golibs::time::{Duration, Time};

pub(super) fn register(map: &mut FuncMap) {
    map.add("genCA", |name: Str, days: isize| -> Result<Value, FuncError> {
        self_signed(authority(&name, days)?, new_key()?).map(Certificate::value)
    });
    map.add("genCAWithKey", |name: Str, days: isize, key: Str| -> Result<Value, FuncError> {
        let key = given_key(&key)?;
        self_signed(authority(&name, days)?, key).map(Certificate::value)
    });
    map.add("genSelfSignedCert", |name: Str, ips: List, names: List, days: isize| -> Result<Value, FuncError> {
        let subject = subject(&name, &ips, &names, days)?;
        self_signed(subject, new_key()?).map(Certificate::value)
    });
    map.insert(
        "genSelfSignedCertWithKey",
        subject_function(&[Param::String], |args| {
            let key = given_key(&Str::from_value(&args[4]))?;
            self_signed(subject_of(args)?, key)
        }),
    );
    map.insert(
        "genSignedCert",
        subject_function(&[CERTIFICATE], |args| {
            let issuer = CertificateArg::from_value(&args[4]).issuer()?;
            signed(subject_of(args)?, new_key()?, &issuer)
        }),
    );
    map.insert(
        "genSignedCertWithKey",
        subject_function(&[CERTIFICATE, Param::String], |args| {
            let key = given_key(&Str::from_value(&args[5]))?;
            let issuer = CertificateArg::from_value(&args[4]).issuer()?;
            signed(subject_of(args)?, key, &issuer)
        }),
    );
    map.add("buildCustomCert", |certificate: Str, key: Str| -> Result<Value, FuncError> {
        build_custom(&certificate, &key).map(Certificate::value)
    });
}

const CERTIFICATE: Param = Param::Object("sprig.certificate");

/// Creates a function that takes a common name, IP addresses, DNS names, a number of days, and further arguments.
fn subject_function(further: &[Param], call: fn(&[Value]) -> Result<Certificate, FuncError>) -> Function {
    let params = [&[Param::String, Param::List, Param::List, Param::Int], further].concat();
    Function::new(params, None, move |_, args| call(args).map(Certificate::value))
}

/// A certificate and its key in PEM. Counterpart: Sprig's `certificate`.
#[derive(Clone, Debug, Default)]
pub(super) struct Certificate {
    pub(super) cert: String,
    pub(super) key: String,
}

impl Certificate {
    fn value(self) -> Value {
        Value::Object(Arc::new(self))
    }
}

impl Object for Certificate {
    fn type_name(&self) -> &str {
        "sprig.certificate"
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::new("Cert", self.cert.as_str()), Field::new("Key", self.key.as_str())]
    }
}

/// An argument of type `sprig.certificate`.
struct CertificateArg(Certificate);

impl FromValue for CertificateArg {
    const PARAM: Param = CERTIFICATE;
    fn from_value(value: &Value) -> Self {
        let certificate = match value {
            Value::Object(object) => object.downcast_ref::<Certificate>().cloned(),
            _ => None,
        };
        CertificateArg(certificate.unwrap_or_default())
    }
}

impl CertificateArg {
    /// Returns the certificate's issuer data and its key, with which it signs others.
    fn issuer(&self) -> Result<(Issuer, PrivateKey), FuncError> {
        let block = pem::decode(&self.0.cert).ok_or("unable to decode certificate")?;
        let issuer = Issuer::from_der(&block.bytes)
            .ok_or("error parsing certificate: decodedSignerCert.Bytes: x509: malformed certificate")?;
        let key =
            PrivateKey::from_pem(&self.0.key).map_err(|e| FuncError::new(format!("error parsing private key: {e}")))?;
        Ok((issuer, key))
    }
}

fn new_key() -> Result<PrivateKey, FuncError> {
    PrivateKey::generate_rsa(CERTIFICATE_RSA_BITS).map_err(|e| FuncError::new(format!("error generating rsa key: {e}")))
}

fn given_key(text: &Str) -> Result<PrivateKey, FuncError> {
    PrivateKey::from_pem(&text.to_text()).map_err(|e| FuncError::new(format!("parsing private key: {e}")))
}

fn authority(name: &Str, days: isize) -> Result<Subject, FuncError> {
    let none = List::new(go_template::ListType::Interface, Vec::new());
    Ok(Subject { is_authority: true, ..subject(name, &none, &none, days)? })
}

fn subject_of(args: &[Value]) -> Result<Subject, FuncError> {
    let list = |i: usize| List::from_value(&args[i]);
    subject(&Str::from_value(&args[0]), &list(1), &list(2), isize::from_value(&args[3]))
}

fn subject(name: &Str, ips: &List, names: &List, days: isize) -> Result<Subject, FuncError> {
    let addresses = ips.iter().map(address).collect::<Result<_, _>>()?;
    let names = names.iter().map(dns_name).collect::<Result<_, _>>()?;
    let now = Time::now();
    let validity = Duration::from_seconds_wrapping((days as i64).wrapping_mul(86_400));
    Ok(Subject {
        common_name: name.to_text().into_owned(),
        addresses,
        names,
        not_after: now.add(validity),
        not_before: now,
        is_authority: false,
    })
}

fn address(value: &Value) -> Result<std::net::IpAddr, FuncError> {
    let Some(text) = value.as_str() else {
        return Err(FuncError::new(format!("error parsing ip: {} is not a string", printed(value))));
    };
    text.to_text().parse().map_err(|_| FuncError::new(format!("error parsing ip: {text}")))
}

fn dns_name(value: &Value) -> Result<String, FuncError> {
    let name = value.as_str().map(|text| text.to_text().into_owned());
    name.ok_or_else(|| {
        FuncError::new(format!("error processing alternate dns name: {} is not a string", printed(value)))
    })
}

fn printed(value: &Value) -> String {
    String::from_utf8_lossy(&go_template::fmt::sprint(std::slice::from_ref(value))).into_owned()
}

fn self_signed(subject: Subject, key: PrivateKey) -> Result<Certificate, FuncError> {
    issue(&subject, &key, None)
}

fn signed(
    subject: Subject,
    key: PrivateKey,
    (issuer, signer): &(Issuer, PrivateKey),
) -> Result<Certificate, FuncError> {
    issue(&subject, &key, Some((issuer, signer)))
}

fn issue(
    subject: &Subject,
    key: &PrivateKey,
    issuer: Option<(&Issuer, &PrivateKey)>,
) -> Result<Certificate, FuncError> {
    let certificate = timed(|| certify(subject, key, issuer))
        .map_err(|e| FuncError::new(format!("error creating certificate: {e}")))?;
    Ok(Certificate { cert: pem::encode("CERTIFICATE", &certificate), key: key.pem() })
}

fn build_custom(certificate: &Str, key: &Str) -> Result<Certificate, FuncError> {
    let cert = STANDARD.decode(&certificate[..]).map_err(|_| "unable to decode base64 certificate")?;
    let key = STANDARD.decode(&key[..]).map_err(|_| "unable to decode base64 private key")?;
    let (cert, key) = (String::from_utf8_lossy(&cert).into_owned(), String::from_utf8_lossy(&key).into_owned());
    let block = pem::decode(&cert).ok_or("unable to decode certificate")?;
    Issuer::from_der(&block.bytes)
        .ok_or("error parsing certificate: decodedCert.Bytes: x509: malformed certificate")?;
    PrivateKey::from_pem(&key).map_err(|e| FuncError::new(format!("error parsing private key: {e}")))?;
    Ok(Certificate { cert, key })
}
