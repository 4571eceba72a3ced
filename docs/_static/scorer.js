// Ranks of search results: guides before methods of classes. A var, since the search declares it too.
var Scorer = {
  score: ([page, , , , score]) => score + (/^(how-to|tutorials)\//.test(page) ? 10 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
