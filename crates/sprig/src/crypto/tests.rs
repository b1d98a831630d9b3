use std::io::Write as _;
use std::process::Command;

use go_template::{Scope, Value};

use super::*;

fn call(name: &str, args: &[Value]) -> Result<Value, String> {
    let mut map = FuncMap::default();
    register(&mut map);
    let templates = std::sync::Arc::new(go_template::Templates::new("t"));
    let mut scope = Scope::new(templates, go_template::Options::default());
    map.get(name).unwrap().call(&mut scope, &mut args.to_vec()).map_err(|e| e.to_string())
}

fn text(name: &str, args: &[Value]) -> String {
    call(name, args).unwrap().as_str().unwrap().to_string()
}

fn field(value: &Value, name: &str) -> String {
    let Value::Object(object) = value else { panic!("{value:?} is no object") };
    object.field(name).unwrap().as_str().unwrap().to_string()
}

#[test]
fn digests_are_hexadecimal() {
    assert_eq!(text("sha1sum", &["hello".into()]), "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d");
    assert!(text("sha256sum", &["".into()]).starts_with("e3b0c44298fc1c14"));
    assert!(text("sha512sum", &["".into()]).starts_with("cf83e1357eefb8bd"));
    assert_eq!(text("adler32sum", &["hello".into()]), "103547413");
}

#[test]
fn bcrypt_hashes_have_gos_prefix_and_cost() {
    let hash = text("bcrypt", &["x".into()]);
    assert!(hash.starts_with(&format!("$2a${BCRYPT_COST}$")) && bcrypt::verify("x", &hash).unwrap(), "{hash}");
    assert!(text("htpasswd", &["u".into(), "p".into()]).starts_with("u:$2a$10$"));
    assert_eq!(text("htpasswd", &["a:b".into(), "p".into()]), "invalid username: a:b");
}

#[test]
fn bcrypt_refuses_a_password_above_its_limit() {
    assert!(text("bcrypt", &["x".repeat(MAX_BCRYPT_PASSWORD).into()]).starts_with("$2a$"));
    let refused = text("bcrypt", &["x".repeat(MAX_BCRYPT_PASSWORD + 1).into()]);
    assert_eq!(refused, "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes");
}

#[test]
fn derived_passwords_match_sprigs() {
    let derive = |counter: u64, kind: &str, password: &str, user: &str, site: &str| {
        let counter = Value::Uint(counter, go_template::UintType::Uint32);
        text("derivePassword", &[counter, kind.into(), password.into(), user.into(), site.into()])
    };
    assert_eq!(derive(1, "long", "password", "user", "example.com"), "ZedaFaxcZaso9*");
    assert_eq!(derive(1, "pin", "pw", "me", "site.org"), "3639");
    assert_eq!(derive(4_294_967_295, "long", "pässword", "usér", "ex"), "Taxu8^VovvBogi");
    assert_eq!(derive(1, "other", "p", "u", "s"), "cannot find password template other");
}

#[test]
fn decrypting_returns_the_encrypted_text() {
    for plain in ["x", "sixteen bytes!!!", "héllo"] {
        let encrypted = text("encryptAES", &["key".into(), plain.into()]);
        assert_eq!(text("decryptAES", &["key".into(), encrypted.into()]), plain);
    }
    assert_eq!(
        text("decryptAES", &["secretkey".into(), "ReF43O9hlIEHkrHDjdohovMugUoG/Pt9GAnjtooSAw8=".into()]),
        "plaintext"
    );
    assert_eq!(text("encryptAES", &["key".into(), "".into()]), "");
}

#[test]
fn decrypting_garbage_is_an_error_not_a_panic() {
    for (input, message) in [
        ("bad base64", "illegal base64 data at input byte 3"),
        ("AAAA", "runtime error: slice bounds out of range [:16] with capacity 3"),
        ("AAAAAAAAAAAAAAAAAAAAAA==", "runtime error: index out of range [-1]"),
        ("AAAAAAAAAAAAAAAAAAAAAAAA", "crypto/cipher: input not full blocks"),
    ] {
        assert_eq!(call("decryptAES", &["k".into(), input.into()]).unwrap_err(), message, "{input}");
    }
}

#[test]
fn uuids_are_random_and_of_version_four() {
    let id = text("uuidv4", &[]);
    assert_eq!((id.len(), &id[14..15]), (36, "4"));
    assert!("89ab".contains(&id[19..20]), "variant 10: {id}");
    assert_ne!(id, text("uuidv4", &[]));
}

#[test]
fn private_keys_have_the_pem_label_of_their_kind() {
    for (kind, label) in [("ecdsa", "EC PRIVATE KEY"), ("ed25519", "PRIVATE KEY")] {
        let key = text("genPrivateKey", &[kind.into()]);
        assert!(
            key.starts_with(&format!("-----BEGIN {label}-----\n"))
                && key.ends_with(&format!("-----END {label}-----\n")),
            "{key}"
        );
        assert_eq!(PrivateKey::from_pem(&key).unwrap().pem(), key);
    }
    assert_eq!(text("genPrivateKey", &["ed25519".into()]).len(), 119);
    assert_eq!(text("genPrivateKey", &["x".into()]), "Unknown type x");
}

#[test]
fn dsa_keys_hold_six_numbers() {
    let key = PrivateKey::generate_dsa().unwrap().pem();
    assert!(key.starts_with("-----BEGIN DSA PRIVATE KEY-----\n"));
    assert_eq!(PrivateKey::from_pem(&key).unwrap().pem(), key);
}

#[test]
fn signing_needs_the_key_of_the_signers_certificate() {
    let key = |kind: &str| Value::from(text("genPrivateKey", &[kind.into()]));
    let ca = call("genCAWithKey", &["ca".into(), Value::int(1), key("ecdsa")]).unwrap();
    let encode = |text: String| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    let mixed = [encode(field(&ca, "Cert")).into(), encode(text("genPrivateKey", &["ed25519".into()])).into()];
    let mixed = call("buildCustomCert", &mixed).unwrap();
    let nil = || Value::list(vec![]);
    let error =
        call("genSignedCertWithKey", &["s".into(), nil(), nil(), Value::int(1), mixed, key("ed25519")]).unwrap_err();
    assert_eq!(error, "error creating certificate: x509: provided PrivateKey doesn't match parent's PublicKey");
}

#[test]
fn malformed_certificates_and_keys_are_refused() {
    let bad = |name: &str, args: &[Value]| call(name, args).unwrap_err();
    assert_eq!(
        bad("genCAWithKey", &["ca".into(), Value::int(1), "bad".into()]),
        "parsing private key: no PEM data in input"
    );
    let ips = Value::list(vec!["notanip".into()]);
    assert_eq!(
        bad("genSelfSignedCert", &["a".into(), ips, Value::list(vec![]), Value::int(1)]),
        "error parsing ip: notanip"
    );
    let names = Value::list(vec![Value::int(1)]);
    let message = "error processing alternate dns name: 1 is not a string";
    assert_eq!(bad("genSelfSignedCert", &["a".into(), Value::list(vec![]), names, Value::int(1)]), message);
    assert_eq!(bad("buildCustomCert", &["!".into(), "".into()]), "unable to decode base64 certificate");
    assert_eq!(bad("buildCustomCert", &["".into(), "".into()]), "unable to decode certificate");
}

/// If OpenSSL is installed, it must accept our signatures.
#[test]
fn openssl_verifies_the_chain_of_a_signed_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write =
        |name: &str, text: String| std::fs::File::create(path(name)).unwrap().write_all(text.as_bytes()).unwrap();
    let ca = call("genCA", &["my ca".into(), Value::int(10)]).unwrap();
    write("ca.pem", field(&ca, "Cert"));
    for kind in ["rsa", "ecdsa", "ed25519"] {
        let ips = Value::list(vec!["10.0.0.1".into(), "::1".into()]);
        let names = Value::list(vec!["a.example".into(), "*.b.example".into()]);
        let mut args = vec!["*.example".into(), ips, names, Value::int(5), ca.clone()];
        let signed = if kind == "rsa" {
            call("genSignedCert", &args).unwrap()
        } else {
            args.push(text("genPrivateKey", &[kind.into()]).into());
            call("genSignedCertWithKey", &args).unwrap()
        };
        write("cert.pem", field(&signed, "Cert"));
        let Ok(output) =
            Command::new("openssl").arg("verify").arg("-CAfile").arg(path("ca.pem")).arg(path("cert.pem")).output()
        else {
            eprintln!("skipped: openssl is not installed");
            return;
        };
        assert!(output.status.success(), "{kind}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
