import crypto from 'node:crypto';
import { shop } from '../../lib/shop';

export default function handler(req, res) {
  const { name, password } = req.body;
  if (password !== 'pw-' + name) return res.status(403).json({ error: 'wrong password' });
  const token = 'token-' + crypto.randomBytes(16).toString('hex');
  const key = 'key-' + crypto.randomBytes(16).toString('hex');
  shop.tokens.set(token, name).set(key, name);
  res.json({ token, key });
}
