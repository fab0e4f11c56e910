"""Operations of DISPATCH_QUEUE, as TYP has them."""

from __future__ import annotations

DELETE, INSERT, UPDATE, COMMIT, CLOSING, ROLLBACK = 1, 2, 3, 4, 5, 10
