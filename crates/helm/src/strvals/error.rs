//! The reasons why a text cannot be parsed, in the words of Helm and Go's `strconv`.

use go_template::Value;
use golibs::strconv::{NumError, quote};

use super::{MAX_INDEX, MAX_NESTED_LISTS, MAX_NESTED_NAME_LEVEL};

/// The reason why a text cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A name is not followed by `=`.
    #[error("key {} has no value", quote(.0))]
    NoValue(String),
    /// A name is followed by a comma.
    #[error("key {} has no value (cannot end with ,)", quote(.0))]
    EndsWithComma(String),
    /// A dotted name ends with its dot.
    #[error("key map {} has no value", quote(.0))]
    EmptyTable(String),
    /// A name contains more than [`MAX_NESTED_NAME_LEVEL`] dots.
    #[error("value name nested level is greater than maximum supported nested level of {MAX_NESTED_NAME_LEVEL}")]
    TooDeep,
    /// Lists nest deeper than [`MAX_NESTED_LISTS`].
    #[error("lists are nested deeper than the maximum supported level of {MAX_NESTED_LISTS}")]
    ListsTooDeep,
    /// An index is not a number. Holds the index and the reason.
    #[error("error parsing index: strconv.Atoi: parsing {}: {}", quote(.0), .1)]
    Index(String, NumError),
    /// An index is negative.
    #[error("negative {0} index not allowed")]
    NegativeIndex(i64),
    /// An index exceeds [`MAX_INDEX`].
    #[error("index of {0} is greater than maximum supported index of {MAX_INDEX}")]
    IndexTooLarge(i64),
    /// There is text between `]` and the next delimiter.
    #[error("unexpected data at end of array index: {0}")]
    AfterIndex(String),
    /// A list lacks its `}`.
    #[error("list must terminate with '}}'")]
    OpenList,
    /// A name is below a value that is not a table, or an index is into a value that is not a list.
    #[error("unable to parse key: interface conversion: interface {{}} is {found}, not {wanted}")]
    WrongType {
        /// The Go type of the existing value.
        found: String,
        /// The Go type that the name requires.
        wanted: &'static str,
    },
    /// A value is not valid JSON.
    #[error("{0}")]
    Json(String),
    /// The caller's reader failed. Holds its message.
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
