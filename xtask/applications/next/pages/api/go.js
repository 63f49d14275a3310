export default function handler(req, res) {
  const scheme = req.headers['x-forwarded-proto'] === 'https' ? 'https' : 'http';
  res.redirect(302, `${scheme}://${req.headers.host}/account`);
}
