//! Scans the texts of integers, floats and dates.

use super::{Lexer, Scalar, quote_char};
use crate::toml::error::{Problem, Result};

impl Lexer<'_> {
    pub(super) fn number_or_date(&mut self) -> Result<Scalar> {
        self.take_while(|c| c.is_ascii_digit())?;
        match self.next()? {
            Some('-' | ':') => self.date(),
            Some('_') => self.decimal(),
            Some('.' | 'e' | 'E') => self.float(),
            _ => {
                self.back();
                Ok(Scalar::Integer(self.token().into_owned()))
            }
        }
    }

    fn date(&mut self) -> Result<Scalar> {
        let text = self.take_while(|c| c.is_ascii_digit() || "-:Tt .Zz+".contains(c))?;
        Ok(Scalar::Datetime(text.trim().to_owned()))
    }

    fn decimal(&mut self) -> Result<Scalar> {
        self.take_while(|c| c.is_ascii_digit() || c == '_')?;
        if matches!(self.next()?, Some('.' | 'e' | 'E')) {
            return self.float();
        }
        self.back();
        Ok(Scalar::Integer(self.token().into_owned()))
    }

    fn float(&mut self) -> Result<Scalar> {
        self.take_while(|c| c.is_ascii_digit() || "_.-+eE".contains(c)).map(Scalar::Float)
    }

    pub(super) fn number_after_zero(&mut self) -> Result<Scalar> {
        let (base, fits): (&'static str, fn(char) -> bool) = match self.next()? {
            Some('0'..='9') => return self.number_or_date(),
            Some('_') => return self.decimal(),
            Some('.' | 'e' | 'E') => return self.float(),
            Some('b') => ("a binary", |c| matches!(c, '0' | '1')),
            Some('o') => ("an octal", |c| matches!(c, '0'..='7')),
            Some('x') => ("a hexadecimal", |c| c.is_ascii_hexdigit()),
            _ => {
                self.back();
                return Ok(Scalar::Integer(self.token().into_owned()));
            }
        };
        let digit = self.peek()?;
        if !digit.is_some_and(fits) {
            let text = format!("{}{}", self.token(), digit.unwrap_or('\0'));
            return Err(self.fail(Problem::WrongBase { base, text }));
        }
        self.take_while(|c| fits(c) || c == '_').map(Scalar::Integer)
    }

    pub(super) fn signed_number(&mut self) -> Result<Scalar> {
        let c = self.next()?;
        let word = match c {
            Some('i') => Some(['n', 'f']),
            Some('n') => Some(['a', 'n']),
            _ => None,
        };
        if let Some([second, third]) = word {
            if !self.accept(second)? || !self.accept(third)? {
                return Err(self.fail(Problem::InvalidFloatName(self.token().into_owned())));
            }
            return Ok(Scalar::Float(self.token().into_owned()));
        }
        match c {
            Some('.') => Err(self.fail("floats must start with a digit, not '.'")),
            Some(digit) if digit.is_ascii_digit() => {
                let base = self.peek()?;
                if digit == '0' && matches!(base, Some('b' | 'o' | 'x')) {
                    let text = format!("{}{}", self.token(), base.unwrap_or('\0'));
                    return Err(self.fail(Problem::SignedBase(text)));
                }
                self.decimal()
            }
            _ => Err(self.fail(Problem::NotADigit(quote_char(c)))),
        }
    }
}
