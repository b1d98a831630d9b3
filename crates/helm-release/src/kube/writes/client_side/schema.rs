//! The merge rules of built-in kinds, from the server's OpenAPI documents, which are read on first use and cached.
//!
//! Custom resources and kinds of aggregated servers have no merge rules and get JSON merge patches, as in Helm.

use std::collections::HashMap;
use std::sync::Arc;

use outside::{Api, Call, Error};
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::kube::kinds::resource::Resource;
use crate::kube::objects::decoded::is_built_in;

/// The OpenAPI documents of the server's groups and versions.
pub(in crate::kube) struct Schemas {
    api: Arc<dyn Api>,
    /// Locked while a document is read, so that concurrent objects share one request.
    documents: Mutex<HashMap<Arc<str>, Arc<Document>>>,
}

impl Schemas {
    /// Creates an empty cache.
    pub(in crate::kube) fn new(api: Arc<dyn Api>) -> Schemas {
        Schemas { api, documents: Mutex::default() }
    }

    /// Returns the document with a kind's schema; `None` if the kind has no merge rules.
    ///
    /// # Errors
    /// The request failed, or the server has just started and does not publish the document of a built-in group yet.
    /// Without merge rules, a patch would drop what others added to lists.
    pub(super) async fn document(&self, resource: &Resource) -> Result<Option<Arc<Document>>, Error> {
        if !may_be_built_in(resource.group()) {
            return Ok(None);
        }
        let mut documents = self.documents.lock().await;
        if let Some(known) = documents.get(&resource.api_version) {
            return Ok(Some(known.clone()));
        }
        let root = if resource.group().is_empty() { "api" } else { "apis" };
        let path = format!("/openapi/v3/{root}/{}", resource.api_version);
        let document = match self.api.send(Call::get(&path)).await {
            Err(error) if error.is_not_found() && is_built_in(resource.group()) => return Err(unpublished(&path)),
            Err(error) if error.is_not_found() => return Ok(None),
            answer => Arc::new(answer?.parse::<Document>()?),
        };
        documents.insert(resource.api_version.clone(), document.clone());
        Ok(Some(document))
    }
}

fn unpublished(path: &str) -> Error {
    Error::from_status(503, "ServiceUnavailable", &format!("the API server does not publish {path} yet"))
}

/// Returns whether a group may hold built-in kinds. Custom resources may also be in `k8s.io` groups;
/// [`Document::schema`] excludes them.
fn may_be_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// The part of an OpenAPI document that we keep: references and merge rules.
#[derive(Deserialize)]
pub(super) struct Document {
    components: Components,
}

#[derive(Deserialize)]
struct Components {
    schemas: HashMap<String, Node>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Node {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    #[serde(rename = "allOf")]
    all_of: Vec<Node>,
    properties: HashMap<String, Node>,
    items: Option<Box<Node>>,
    #[serde(rename = "x-kubernetes-patch-strategy")]
    strategy: String,
    #[serde(rename = "x-kubernetes-patch-merge-key")]
    merge_key: Option<String>,
    #[serde(rename = "x-kubernetes-group-version-kind")]
    kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    kind: String,
}

/// Maximum length of a chain of references.
const MAX_REFERENCES: usize = 16;

impl Document {
    /// Returns the schema of a built-in kind.
    pub(super) fn schema(&self, kind: &str) -> Option<Schema<'_>> {
        let mut named = self.components.schemas.iter().filter(|(name, _)| name.starts_with("io.k8s.api."));
        let (_, node) = named.find(|(_, node)| node.kinds.iter().any(|k| k.kind == kind))?;
        Some(Schema { document: self, node })
    }
}

/// The schema of one structure.
#[derive(Clone, Copy)]
pub(super) struct Schema<'a> {
    document: &'a Document,
    node: &'a Node,
}

/// How one field is merged.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    /// The schema of the field's value; for lists, of each element.
    pub(super) schema: Schema<'a>,
    strategy: &'a str,
    merge_key: Option<&'a str>,
}

impl<'a> Schema<'a> {
    /// Returns the field's rules; `None` if the schema lacks it.
    pub(super) fn field(self, name: &str) -> Option<Field<'a>> {
        let field = self.node.properties.get(name)?;
        let node = self.resolve(field.items.as_deref().unwrap_or(field));
        let schema = Schema { document: self.document, node };
        Some(Field { schema, strategy: &field.strategy, merge_key: field.merge_key.as_deref() })
    }

    fn resolve(self, mut node: &'a Node) -> &'a Node {
        for _ in 0..MAX_REFERENCES {
            node = node.all_of.first().unwrap_or(node);
            let name = node.reference.as_deref().and_then(|r| r.strip_prefix("#/components/schemas/"));
            match name.and_then(|name| self.document.components.schemas.get(name)) {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }
}

impl<'a> Field<'a> {
    /// Returns whether lists are merged element by element.
    pub(super) fn merges(self) -> bool {
        self.has("merge")
    }

    /// Returns whether the patch replaces the live value.
    pub(super) fn replaces(self) -> bool {
        self.has("replace")
    }

    /// Returns whether fields missing from the new structure are cleared.
    pub(super) fn retains_keys(self) -> bool {
        self.has("retainKeys")
    }

    /// Returns the field that identifies elements of a merged list; `None` for lists of scalars.
    pub(super) fn merge_key(self) -> Option<&'a str> {
        self.merge_key
    }

    fn has(self, strategy: &str) -> bool {
        self.strategy.split(',').any(|s| s == strategy)
    }
}
