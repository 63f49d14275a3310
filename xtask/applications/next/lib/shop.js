// What the pages share: sessions (of iron-session: all of one is in its cookie), accounts, notes.
import crypto from 'node:crypto';
import { getIronSession } from 'iron-session';

globalThis.shop ??= {
  password: crypto.randomBytes(32).toString('hex'), tokens: new Map(), notes: new Map(), posts: [],
};
export const shop = globalThis.shop;

export const secret = (name) =>
  'secret-' + crypto.createHash('sha256').update('shop' + name).digest('hex').slice(0, 12);

export const session = (req, res) => getIronSession(req, res, {
  password: shop.password, cookieName: 'shop',
  cookieOptions: { secure: req.headers['x-forwarded-proto'] === 'https' },
});

export async function form(req) {
  let body = '';
  for await (const piece of req) body += piece;
  return Object.fromEntries(new URLSearchParams(body));
}

export const redirect = (destination) => ({ redirect: { destination, statusCode: 302 } });

// Builds the properties of a page: the visitor, flashes (shown once), and a token for its form.
export async function page({ req, res }, title, lines, target = null, cacheControl = null) {
  const visit = await session(req, res);
  const flashes = visit.flashes ?? [];
  delete visit.flashes;
  if (target) visit.csrf ??= crypto.randomBytes(18).toString('base64url');
  if (target || flashes.length) await visit.save();
  if (cacheControl) res.setHeader('Cache-Control', cacheControl);
  const who = visit.name ? `${visit.name} ${secret(visit.name)}` : 'visitor';
  const shown = typeof lines === 'function' ? lines(visit) : lines;
  const token = target ? visit.csrf : null;
  return { props: { title, who, lines: shown, flashes, target, token } };
}

// Returns the session and the fields of a form that was sent with the right token, or null.
export async function sent({ req, res }) {
  const visit = await session(req, res);
  const fields = await form(req);
  if (fields._csrf && fields._csrf === visit.csrf) return { visit, fields };
  res.statusCode = 403;
  return null;
}

// Builds the properties of a page that is the same for all.
export const forAll = (title, lines) =>
  ({ title, who: 'all', lines, flashes: [], target: null, token: null });

export const wrongToken = () => ({ props: forAll('wrong token', []) });

// Wraps a handler of the interface, which is called with the account's name.
export const api = (field, handler) => (req, res) => {
  const name = shop.tokens.get((req.headers[field] ?? '').replace(/^Bearer /, ''));
  if (name) return handler(req, res, name);
  res.setHeader('WWW-Authenticate', 'Bearer');
  res.status(401).json({ error: 'not signed in' });
};

export const notesOf = (name) => shop.notes.get(name) ?? shop.notes.set(name, {}).get(name);
