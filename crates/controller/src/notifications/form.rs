//! An event as a CloudEvent 1.0, in the two modes of its HTTP binding.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Settings;
use crate::events::Notice;

/// How an event is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Everything is in the body, so that its signature covers everything.
    #[default]
    Structured,
    /// The attributes are headers, and the body is the data.
    Binary,
}

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Message {
    pub(super) fn new(notice: &Notice, settings: &Settings) -> Message {
        let attributes = [
            ("specversion", "1.0".to_owned()),
            ("id", id(notice)),
            ("source", settings.source.clone()),
            ("type", format!("{}{}", settings.type_prefix, notice.outcome.reason)),
            ("subject", subject(notice)),
            ("time", notice.at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()),
        ];
        match settings.mode {
            Mode::Structured => Message::structured(&attributes, data(notice)),
            Mode::Binary => Message::binary(&attributes, &data(notice)),
        }
    }

    fn structured(attributes: &[(&str, String)], data: Value) -> Message {
        let mut body = json!({"datacontenttype": "application/json", "data": data});
        attributes.iter().for_each(|(name, value)| body[name] = value.as_str().into());
        Message::with("application/cloudevents+json; charset=UTF-8", &body)
    }

    fn binary(attributes: &[(&str, String)], data: &Value) -> Message {
        let mut message = Message::with("application/json", data);
        for (name, value) in attributes {
            let name = HeaderName::from_bytes(format!("ce-{name}").as_bytes());
            let value = HeaderValue::from_str(&percent_encoded(value));
            if let (Ok(name), Ok(value)) = (name, value) {
                message.headers.insert(name, value);
            }
        }
        message
    }

    fn with(content_type: &'static str, body: &Value) -> Message {
        let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type))].into_iter().collect();
        Message { headers, body: body.to_string().into_bytes() }
    }
}

/// Identifies the event: the same for each attempt to send it, and another one if it happens again.
fn id(notice: &Notice) -> String {
    let mut hash = Sha256::new_with_prefix(notice.key);
    hash.update(notice.at.as_nanosecond().to_le_bytes());
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Names the resource: `Memcached/default/web`.
fn subject(notice: &Notice) -> String {
    let part = |part: &Option<String>| part.clone().filter(|part| !part.is_empty());
    let on = &notice.on;
    [&on.kind, &on.namespace, &on.name].into_iter().filter_map(part).collect::<Vec<_>>().join("/")
}

fn data(notice: &Notice) -> Value {
    json!({
        "type": if notice.outcome.warning { "Warning" } else { "Normal" },
        "reason": notice.outcome.reason,
        "action": notice.outcome.action,
        "message": notice.outcome.message,
        "object": notice.on,
        "controller": &*notice.controller,
        "instance": &*notice.instance,
    })
}

/// Encodes what a header may not contain, as the HTTP binding requires.
fn percent_encoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'!'..=b'~' if !b"\"%".contains(&byte) => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encoded).collect()
}
