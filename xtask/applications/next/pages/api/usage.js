import { api, secret } from '../../lib/shop';

export default api('x-api-key', (req, res, name) =>
  res.json({ name, plan: 'free', secret: secret(name) }));
