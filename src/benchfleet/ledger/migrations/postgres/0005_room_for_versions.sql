-- Each claim and each end enters the cell anew into this index, beside its other versions. Where its
-- pages are full the server first looks which of those are dead, and else parts the page: both cost
-- more than the entry. It holds for pages that are made from now on, which is where cells are enrolled.
alter index cell_pkey set (fillfactor = 50);
