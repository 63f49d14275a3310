import fs from 'node:fs';
import path from 'node:path';
import { secret, session } from '../../lib/shop';

// The time of a report follows from the name, so that all instances agree on it.
const written = (name) => new Date(1000 * (1700000000 + parseInt(secret(name).slice(-5), 16)));

export default async function handler(req, res) {
  const { name } = await session(req, res);
  if (!name) return res.redirect(302, '/login?next=/files/report.txt');
  res.setHeader('Content-Type', 'text/plain; charset=utf-8');
  res.setHeader('Content-Disposition', 'attachment; filename=report.txt');
  res.setHeader('Last-Modified', written(name).toUTCString());
  fs.createReadStream(path.join(process.env.STATE, name + '.txt')).pipe(res);
}
