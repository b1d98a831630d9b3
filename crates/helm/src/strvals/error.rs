//! Why a text cannot be parsed, with the words of Helm and of Go's `strconv`.

use go_template::Value;
use golibs::strconv::{NumError, quote};

use super::{MAX_INDEX, MAX_NESTED_LISTS, MAX_NESTED_NAME_LEVEL};

/// Why a text cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A name without `=`.
    #[error("key {} has no value", quote(.0))]
    NoValue(String),
    /// A name that a comma ends.
    #[error("key {} has no value (cannot end with ,)", quote(.0))]
    EndsWithComma(String),
    /// A dotted name that leads to nothing.
    #[error("key map {} has no value", quote(.0))]
    EmptyTable(String),
    /// More dots than Helm allows.
    #[error("value name nested level is greater than maximum supported nested level of {MAX_NESTED_NAME_LEVEL}")]
    TooDeep,
    /// More lists in each other than we allow.
    #[error("lists are nested deeper than the maximum supported level of {MAX_NESTED_LISTS}")]
    ListsTooDeep,
    /// An index that is not a number. Holds the index and the reason.
    #[error("error parsing index: strconv.Atoi: parsing {}: {}", quote(.0), .1)]
    Index(String, NumError),
    /// An index below zero.
    #[error("negative {0} index not allowed")]
    NegativeIndex(i64),
    /// An index above Helm's limit.
    #[error("index of {0} is greater than maximum supported index of {MAX_INDEX}")]
    IndexTooLarge(i64),
    /// Something between `]` and the next sign.
    #[error("unexpected data at end of array index: {0}")]
    AfterIndex(String),
    /// A list that no `}` ends.
    #[error("list must terminate with '}}'")]
    OpenList,
    /// A name that goes on below something that is no table, or an index into something that is no list.
    #[error("unable to parse key: interface conversion: interface {{}} is {found}, not {wanted}")]
    WrongType {
        /// The Go type that was found.
        found: String,
        /// The Go type that the name needs.
        wanted: &'static str,
    },
    /// A value that is not JSON.
    #[error("{0}")]
    Json(String),
    /// What the caller's reader failed with.
    #[error("{0}")]
    Read(String),
}

impl Error {
    pub(super) fn wrong_type(found: &Value, wanted: &'static str) -> Error {
        let found = match found {
            Value::Nil => "nil".to_owned(),
            other => other.type_name().to_owned(),
        };
        Error::WrongType { found, wanted }
    }
}
