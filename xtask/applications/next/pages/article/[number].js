import { forAll } from '../../lib/shop';

export { default } from '../../lib/view';
const texts = {
  en: 'An article about pears.', de: 'Ein Artikel über Birnen.', fr: 'Un article sur les poires.',
};
export function getServerSideProps({ req, res, params }) {
  const asked = (req.headers['accept-language'] ?? 'en').slice(0, 2);
  const language = asked in texts ? asked : 'en';
  res.setHeader('Vary', 'Accept-Language');
  res.setHeader('Content-Language', language);
  if (params.number === '2') res.setHeader('Cache-Control', 'public, max-age=300');
  return { props: forAll('Article', Array(40).fill(texts[language])) };
}
