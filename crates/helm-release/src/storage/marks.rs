//! What we note on a release's Secret beside the record: the inputs' digest, the owner, and every object with its ownership mark.
//!
//! With it a restart needs lists only: no record is read, nothing is rendered. It is the inventory, too.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::kube::{Applied, Mark, ObjectKey, Way};

/// The annotation's key.
pub const MARKS_ANNOTATION: &str = "helm.sdk.operatorframework.io/marks";

/// All of a Secret's annotations may have 256 KiB; past this the marks are left out and a restart applies once more.
const MAX_TEXT: usize = 200 << 10;

/// Flags of an object in the annotation.
const KEPT: u8 = 1;
const CLIENT: u8 = 2;

/// The note on a release's Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The digest of everything that the objects were made from.
    pub inputs: String,
    /// The uid of the custom resource that the release belongs to.
    pub owner: String,
    /// The owner's `Kind.group`. With the record's own name and namespace it tells the same resource in an earlier life, of another uid.
    pub owner_type: String,
    /// The objects, in install order.
    pub objects: Vec<MarkedObject>,
    /// Whether every object was applied: only then marks are complete.
    pub complete: bool,
    /// Whether hooks run when the release is uninstalled.
    pub delete_hooks: bool,
    /// Whether the hooks before an action's objects are done: of an install, upgrade or rollback that is pending, or of an uninstall.
    pub hooks_done: bool,
    /// How often hooks after an uninstall failed.
    pub failed_farewells: u32,
    /// When revision 1 was made, if known.
    pub first_deployed: Option<Timestamp>,
    /// Whether Helm itself made this revision or one before it.
    pub taken_over: bool,
}

/// An object of a release and our mark on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedObject {
    /// Which object.
    pub key: ObjectKey,
    /// The version in which it was applied.
    pub api_version: Arc<str>,
    /// The digest of what the chart said.
    pub digest: String,
    /// The mark after our last apply; absent if the server keeps no managed fields, or before the apply.
    pub mark: Option<Mark>,
    /// Whether it outlives the release.
    pub kept: bool,
    /// Whether we wrote it as a client would, for server-side apply refuses it.
    pub client: bool,
}

impl From<&Applied> for MarkedObject {
    fn from(applied: &Applied) -> MarkedObject {
        MarkedObject {
            key: applied.key.clone(),
            api_version: applied.api_version.clone(),
            digest: applied.digest.clone(),
            mark: applied.live.mark,
            kept: applied.kept,
            client: applied.way != Way::Server,
        }
    }
}

/// The annotation: short keys, for it is kept once for each revision.
#[derive(Serialize, Deserialize)]
struct Text {
    i: String,
    u: String,
    #[serde(default)]
    k: String,
    #[serde(default)]
    c: bool,
    #[serde(default)]
    h: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    d: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    t: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    f: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    m: bool,
    #[serde(default)]
    o: Vec<(String, String, String, String, String, String, u8)>,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Marks {
    /// Reads the annotation; nothing if it is not ours.
    pub fn parse(text: &str) -> Option<Marks> {
        let text: Text = serde_json::from_str(text).ok()?;
        let objects = text.o.into_iter().map(|(api_version, kind, namespace, name, digest, mark, flags)| {
            let group = api_version.split_once('/').map_or("", |(group, _)| group).into();
            let key = ObjectKey { group, kind: kind.into(), namespace: namespace.into(), name: name.into() };
            let (kept, client) = (flags & KEPT != 0, flags & CLIENT != 0);
            MarkedObject { key, api_version: api_version.into(), digest, mark: Mark::parse(&mark), kept, client }
        });
        Some(Marks {
            inputs: text.i,
            owner: text.u,
            owner_type: text.k,
            objects: objects.collect(),
            complete: text.c,
            delete_hooks: text.h,
            hooks_done: text.d,
            failed_farewells: text.t,
            first_deployed: text.f,
            taken_over: text.m,
        })
    }

    /// Writes the annotation.
    pub fn to_text(&self) -> String {
        let object = |o: &MarkedObject| {
            let mark = o.mark.map_or_else(String::new, |m| m.to_string());
            let key = &o.key;
            let flags = if o.kept { KEPT } else { 0 } + if o.client { CLIENT } else { 0 };
            let (kind, namespace, name) = (key.kind.to_string(), key.namespace.to_string(), key.name.to_string());
            (o.api_version.to_string(), kind, namespace, name, o.digest.clone(), mark, flags)
        };
        let mut text = Text {
            i: self.inputs.clone(),
            u: self.owner.clone(),
            k: self.owner_type.clone(),
            c: self.complete,
            h: self.delete_hooks,
            d: self.hooks_done,
            t: self.failed_farewells,
            f: self.first_deployed,
            m: self.taken_over,
            o: self.objects.iter().map(object).collect(),
        };
        let json = serde_json::to_string(&text).unwrap_or_default();
        if json.len() <= MAX_TEXT {
            return json;
        }
        (text.o, text.c) = (Vec::new(), false);
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// The object with this key.
    pub fn find(&self, key: &ObjectKey) -> Option<&MarkedObject> {
        self.objects.iter().find(|o| o.key == *key)
    }
}
