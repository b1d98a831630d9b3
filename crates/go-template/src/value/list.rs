//! Go's slice as templates see it: shared, and never modified in place.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;

use super::Value;
use super::copy::drop_flat;

/// The type of a list, which `typeOf` and type checks see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// `[]interface {}`.
    Interface,
    /// `[]string`.
    String,
    /// `[]int`.
    Int,
    /// `[]map[string]interface {}`.
    Map,
    /// `[][]interface {}`.
    Lists,
}

impl ListType {
    /// Returns the type's name as Go's `%T` prints it.
    pub fn name(self) -> &'static str {
        match self {
            ListType::Interface => "[]interface {}",
            ListType::String => "[]string",
            ListType::Int => "[]int",
            ListType::Map => "[]map[string]interface {}",
            ListType::Lists => "[][]interface {}",
        }
    }

    /// Returns whether the elements are of type `interface {}`.
    pub(crate) fn is_interface(self) -> bool {
        self == ListType::Interface
    }
}

/// A slice: a type and items. A clone shares the items.
#[derive(Clone)]
pub struct List {
    ty: ListType,
    nil: bool,
    items: Arc<Items>,
}

impl List {
    /// Creates a list of this type. The caller ensures that the items have that type.
    pub fn new(ty: ListType, items: Vec<Value>) -> List {
        let holds_map = !matches!(ty, ListType::String | ListType::Int) && items.iter().any(Value::holds_map);
        List { ty, nil: false, items: Arc::new(Items { items, holds_map }) }
    }

    /// Returns Go's nil slice: empty, but `null` in JSON and YAML, and not deeply equal to an empty slice.
    pub fn nil(ty: ListType) -> List {
        List { ty, nil: true, items: Arc::default() }
    }

    /// Returns whether this is Go's nil slice.
    pub fn is_nil(&self) -> bool {
        self.nil
    }

    /// Creates a `[]string`.
    pub fn strings<S: Into<super::Str>>(items: impl IntoIterator<Item = S>) -> List {
        List::new(ListType::String, items.into_iter().map(|s| Value::String(s.into())).collect())
    }

    /// Returns the list's type.
    pub fn ty(&self) -> ListType {
        self.ty
    }

    /// Returns whether the items, or lists among them, contain a map.
    pub(super) fn holds_map(&self) -> bool {
        self.items.holds_map
    }

    /// Returns whether other clones exist.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.items) > 1
    }

    /// Returns the items if this is the last reference to them.
    pub(super) fn into_last_items(self) -> Vec<Value> {
        Arc::into_inner(self.items).map(|mut items| mem::take(&mut items.items)).unwrap_or_default()
    }
}

/// Drops its items without recursion.
#[derive(Default)]
struct Items {
    items: Vec<Value>,
    holds_map: bool,
}

impl Drop for Items {
    fn drop(&mut self) {
        drop_flat(mem::take(&mut self.items).into_iter());
    }
}

impl Deref for List {
    type Target = [Value];
    fn deref(&self) -> &[Value] {
        &self.items.items
    }
}

/// Prints like `%v`, which stops even if a map contains itself.
impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::debug(&Value::List(self.clone()), f)
    }
}
