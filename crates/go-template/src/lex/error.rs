//! Why the lexer failed.

/// Source text that is not a token, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LexError {
    /// A character constant without its closing quote on the same line.
    #[error("unterminated character constant")]
    UnterminatedChar,
    /// A string in double quotes without its closing quote on the same line.
    #[error("unterminated quoted string")]
    UnterminatedString,
    /// A string in back quotes without its closing quote.
    #[error("unterminated raw quoted string")]
    UnterminatedRawString,
    /// Text that starts like a number. Holds the text, quoted.
    #[error("bad number syntax: {0}")]
    BadNumber(String),
    /// A comment without `*/`.
    #[error("unclosed comment")]
    UnclosedComment,
    /// Something between `*/` and `}}`.
    #[error("comment ends before closing delimiter")]
    CommentEndsEarly,
    /// The action ends inside parentheses.
    #[error("unclosed left paren")]
    UnclosedParen,
    /// A closing parenthesis without an opening one.
    #[error("unexpected right paren")]
    UnexpectedParen,
    /// The text ends inside an action.
    #[error("unclosed action")]
    UnclosedAction,
    /// A colon without an equals sign.
    #[error("expected :=")]
    ExpectedDeclaration,
    /// A character that starts no token. Holds the character as Go's `%#U` prints it.
    #[error("unrecognized character in action: {0}")]
    UnrecognizedChar(String),
    /// A character that cannot follow a word. Holds the character as Go's `%#U` prints it.
    #[error("bad character {0}")]
    BadChar(String),
}
