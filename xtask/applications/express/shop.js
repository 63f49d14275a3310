// The shop in Express: express-session, express.static, compression, res.sendFile.
//
// The pages are those that ../README.md lists. /static stands before the session middleware,
// /assets behind it, as in many tutorials: there a newcomer's first file sets a session cookie.
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const compression = require('compression');
const express = require('express');
const session = require('express-session');

const state = process.env.STATE;
const app = express();
const tokens = new Map();
const notes = new Map();
const posts = [];
const articles = {
  en: 'An article about pears. ',
  de: 'Ein Artikel über Birnen. ',
  fr: 'Un article sur les poires. ',
};
const secret = (name) =>
  'secret-' + crypto.createHash('sha256').update('shop' + name).digest('hex').slice(0, 12);
// The time of a report follows from the name, so that all instances agree on it.
const written = (name) => 1700000000 + parseInt(secret(name).slice(-5), 16);
const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

app.set('trust proxy', 'loopback');
app.use(compression());
app.use('/static', express.static(path.join(__dirname, 'static'), { maxAge: '1h' }));
app.use(express.urlencoded({ extended: false }), express.json());

app.use('/api', (req, res, next) => {
  if (req.path === '/token' || req.path === '/public') return next();
  const key = req.path === '/usage' ? req.get('X-API-Key') : req.get('Authorization');
  req.name = tokens.get((key ?? '').replace(/^Bearer /, ''));
  if (req.name) return next();
  res.status(401).set('WWW-Authenticate', 'Bearer').json({ error: 'not signed in' });
});
app.post('/api/token', (req, res) => {
  const { name, password } = req.body;
  if (password !== 'pw-' + name) return res.status(403).json({ error: 'wrong password' });
  const token = 'token-' + crypto.randomBytes(16).toString('hex');
  const key = 'key-' + crypto.randomBytes(16).toString('hex');
  tokens.set(token, name).set(key, name);
  res.json({ token, key });
});
app.get('/api/me', (req, res) => res.json({ name: req.name, secret: secret(req.name) }));
app.get('/api/usage', (req, res) =>
  res.json({ name: req.name, plan: 'free', secret: secret(req.name) }));
const notesOf = (name) => notes.get(name) ?? notes.set(name, {}).get(name);
app.get('/api/notes', (req, res) => res.json({ owner: req.name, notes: notesOf(req.name) }));
app.post('/api/notes', (req, res) => {
  const number = String(Object.keys(notesOf(req.name)).length + 1);
  notesOf(req.name)[number] = req.body.text;
  res.status(201).location('/api/notes/' + number).json({ number });
});
app.all('/api/notes/:number', (req, res) => {
  const mine = notesOf(req.name);
  if (!(req.params.number in mine)) return res.status(404).json({ error: 'no such note' });
  if (req.method === 'PUT') mine[req.params.number] = req.body.text;
  if (req.method === 'DELETE') {
    delete mine[req.params.number];
    return res.status(204).end();
  }
  res.json({ owner: req.name, text: mine[req.params.number] });
});
app.get('/api/public', (req, res) => {
  if (req.get('Origin')) res.set('Access-Control-Allow-Origin', req.get('Origin'));
  res.vary('Origin').set('Cache-Control', 'public, max-age=60');
  res.json({ pears: [...Array(400).keys()] });
});

app.use(session({
  secret: crypto.randomBytes(16).toString('hex'), resave: false, saveUninitialized: true,
  cookie: { secure: 'auto' },
}));
app.use('/assets', express.static(path.join(__dirname, 'static'), { maxAge: '1h' }));
app.use((req, res, next) => {
  req.session.csrf ??= crypto.randomBytes(18).toString('base64url');
  if (req.method === 'POST' && req.body?._csrf !== req.session.csrf)
    return res.status(403).send('wrong token');
  next();
});
function page(req, res, title, lines = [], form = '') {
  const name = req.session.name;
  const flashes = req.session.flashes ?? [];
  delete req.session.flashes;
  res.send(`<!doctype html><title>${title}</title><link rel=stylesheet href=/static/app.css>
<h1>${title}</h1>${flashes.map((f) => `<p class=flash>${escape(f)}</p>`).join('')}
<p>Hello ${name ? `${name} ${secret(name)}` : 'visitor'}</p>
${lines.map((line) => `<li>${escape(line)}</li>`).join('')}
${form && `<form method=post action=${form}><input type=hidden name="_csrf"
 value="${req.session.csrf}"><input name=item></form>`}`);
}
const signedIn = (req, res, next) => req.session.name ? next()
  : res.redirect('/login?next=' + encodeURIComponent(req.originalUrl));
const flash = (req, text) => { (req.session.flashes ??= []).push(text); };

app.get('/', (req, res) => page(req, res, 'Shop'));
app.get('/login', (req, res) => page(req, res, 'Sign in', [], '/login'));
app.post('/login', (req, res, next) => {
  const { name, password, next: target } = req.body;
  if (password !== 'pw-' + name) return res.status(403).send('wrong password');
  const { cart } = req.session;
  req.session.regenerate((error) => {
    if (error) return next(error);
    Object.assign(req.session, { name, cart });
    flash(req, 'Welcome ' + name);
    const report = path.join(state, name + '.txt');
    fs.writeFileSync(report, `The report of ${name}, ${secret(name)}.\n`.repeat(40));
    fs.utimesSync(report, written(name), written(name));
    res.redirect(target || '/account');
  });
});
app.post('/logout', (req, res, next) =>
  req.session.destroy((error) => error ? next(error) : res.redirect('/')));
app.use('/account', signedIn, (req, res) =>
  page(req, res, 'Account', ['Orders of ' + req.session.name], '/logout'));
app.route('/cart')
  .get((req, res) => page(req, res, 'Cart', req.session.cart, '/cart'))
  .post((req, res) => {
    (req.session.cart ??= []).push(req.body.item);
    flash(req, 'Added ' + req.body.item);
    res.redirect('/cart');
  });
app.get('/search', (req, res) => page(req, res, 'Search', ['No pears for ' + (req.query.q ?? '')]));
app.get('/widget', (req, res) =>
  page(req, res.set('Cache-Control', 'private, max-age=60'), 'Widget'));
app.get('/slow', (req, res) => setTimeout(() => page(req, res, 'Slow'), 300));
app.get('/files/report.txt', signedIn, (req, res) =>
  res.sendFile(req.session.name + '.txt', { root: state }));
app.get('/news', (req, res) => res.set('Cache-Control', 'public, max-age=60')
  .send('<h1>News</h1>' + '<p>Pears are ripe.</p>'.repeat(80)));
app.get('/article/:number', (req, res) => {
  const language = req.acceptsLanguages('en', 'de', 'fr') || 'en';
  res.vary('Accept-Language').set('Content-Language', language);
  res.set('ETag', `"article-${req.params.number}-v7"`);
  if (req.params.number === '2') res.set('Cache-Control', 'public, max-age=300');
  res.send(articles[language].repeat(60));
});
app.get('/offers', (req, res) => {
  req.session.touch().seen = Date.now();
  res.vary('Cookie').set('Cache-Control', 'public, max-age=300').set('ETag', '"offers-v1"');
  res.cookie('visit', crypto.randomBytes(18).toString('base64url'), { httpOnly: true });
  res.send('<h1>Offers</h1>' + '<p>Two pears for one.</p>'.repeat(80));
});
app.route('/board')
  .get((req, res) => res.set('Cache-Control', 'public, max-age=30')
    .send(posts.map((text) => `<li>${escape(text)}</li>`).join('')))
  .post((req, res) => {
    posts.push(req.body.text);
    res.redirect('/board');
  });
app.get('/board/new', (req, res) => page(req, res, 'Write', [], '/board'));
app.get('/go', (req, res) => res.redirect(`${req.protocol}://${req.host}/account`));

app.listen(Number(process.env.PORT), '127.0.0.1');
