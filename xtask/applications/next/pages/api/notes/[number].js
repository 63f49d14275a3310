import { api, notesOf } from '../../../lib/shop';

export default api('authorization', (req, res, name) => {
  const mine = notesOf(name);
  const { number } = req.query;
  if (!(number in mine)) return res.status(404).json({ error: 'no such note' });
  if (req.method === 'PUT') mine[number] = req.body.text;
  if (req.method === 'DELETE') {
    delete mine[number];
    return res.status(204).end();
  }
  res.json({ owner: name, text: mine[number] });
});
