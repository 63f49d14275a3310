export default function handler(req, res) {
  if (req.headers.origin) res.setHeader('Access-Control-Allow-Origin', req.headers.origin);
  res.setHeader('Vary', 'Origin');
  res.setHeader('Cache-Control', 'public, max-age=60');
  res.json({ pears: [...Array(400).keys()] });
}
