import { api, secret } from '../../lib/shop';

export default api('authorization', (req, res, name) => res.json({ name, secret: secret(name) }));
