import { api, notesOf } from '../../../lib/shop';

export default api('authorization', (req, res, name) => {
  if (req.method !== 'POST') return res.json({ owner: name, notes: notesOf(name) });
  const number = String(Object.keys(notesOf(name)).length + 1);
  notesOf(name)[number] = req.body.text;
  res.setHeader('Location', '/api/notes/' + number);
  res.status(201).json({ number });
});
