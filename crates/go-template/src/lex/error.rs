//! The reasons why the lexer fails.

/// Source text that does not form a token, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LexError {
    /// A character constant that is not closed on its line.
    #[error("unterminated character constant")]
    UnterminatedChar,
    /// A string in double quotes that is not closed on its line.
    #[error("unterminated quoted string")]
    UnterminatedString,
    /// A string in back quotes that is never closed.
    #[error("unterminated raw quoted string")]
    UnterminatedRawString,
    /// A text that starts like a number is not a valid number. Holds the text, quoted.
    #[error("bad number syntax: {0}")]
    BadNumber(String),
    /// A comment lacks `*/`.
    #[error("unclosed comment")]
    UnclosedComment,
    /// Something stands between `*/` and `}}`.
    #[error("comment ends before closing delimiter")]
    CommentEndsEarly,
    /// The action ends inside parentheses.
    #[error("unclosed left paren")]
    UnclosedParen,
    /// A closing parenthesis lacks an opening one.
    #[error("unexpected right paren")]
    UnexpectedParen,
    /// The text ends inside an action.
    #[error("unclosed action")]
    UnclosedAction,
    /// A colon is not followed by an equals sign.
    #[error("expected :=")]
    ExpectedDeclaration,
    /// No token starts with this character. Holds the character as Go's `%#U` prints it.
    #[error("unrecognized character in action: {0}")]
    UnrecognizedChar(String),
    /// A word is followed by an invalid character. Holds the character as Go's `%#U` prints it.
    #[error("bad character {0}")]
    BadChar(String),
}
