import { session } from '../../lib/shop';

export default async function handler(req, res) {
  const visit = await session(req, res);
  if (req.method !== 'POST' || req.body._csrf !== visit.csrf)
    return res.status(403).send('wrong token');
  visit.destroy();
  res.redirect(302, '/');
}
