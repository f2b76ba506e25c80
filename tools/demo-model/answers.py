# SPDX-License-Identifier: Apache-2.0
"""Instructions about the small world and their answers, one maker for each kind.

A maker takes the random generator and returns (instruction, answer, want). The instruction is an imperative in small
letters ("list five animals"), which make_text.py frames in many ways, or a whole sentence behind a "=".
"""
from facts import about
from stories import long_story, story
from words import article, capital, made_up, number, plural
from world import (ANIMALS, BOYS, COLOURS, DAYS, FOODS, GIRLS, ITEM_OF, LISTS, MONTHS, NUMBERS, OBJECTS, OPPOSITES,
                   PEOPLE, PET_NAMES, PLACES, RECIPES, THING_COLOURS, UNKNOWN, WEATHER)


GREETINGS = [
    ([
        "Hello", "Hello!", "Hi", "Hi!", "Hi there!", "Hey", "Hello there.", "Good day!", "Hello, how is it going?",
        "hey there"
    ], ["Hello! How can I help you?", "Hello! Nice to meet you.", "Hi! What can I do for you?", "Hello, my friend!"]),
    (["Good morning", "Good morning!"], ["Good morning! Did you sleep well?", "Good morning! How can I help you?"]),
    (["Good evening", "Good evening!"], ["Good evening! How was your day?", "Good evening! How can I help you?"]),
    (["Good night", "Good night!",
      "I am tired."], ["Good night! Sleep well.", "Sleep well and dream of something nice."]),
    (["How are you?", "How are you today?", "Are you well?", "How do you feel?",
      "What's up?"], ["I am well, thank you.", "I am fine! How are you?", "Very well, thank you for asking."]),
    (["Who are you?", "What are you?", "What is your name?", "Tell me who you are.", "Introduce yourself."], [
        "I am a small language model. I know a small world of animals, people and places.",
        "I am a little model that tells stories."
    ]),
    (["What can you do?", "How can you help me?", "What do you know?", "Help", "What should I ask you?"], [
        "I can tell stories, make lists and answer small questions.",
        "I can write a sentence, a list or a story for you."
    ]),
    (["Thank you", "Thanks!", "Thank you very much."], ["You are welcome!", "You are welcome. I am glad to help."]),
    (["Bye", "Goodbye!", "See you tomorrow.", "See you!"], ["Goodbye! See you soon.", "Bye! Come back soon."]),
    (["I am sad.", "I feel sad today.",
      "I am lonely."], ["I am sorry to hear that. Shall I tell you a story?", "Do not be sad. I am here."]),
    (["I am happy.", "Today is a good day.", "I am so glad!"], ["That is wonderful!", "I am glad to hear that!"]),
    (["I am bored.",
      "I do not know what to do."], ["Shall I tell you a story?", "You could read a book or go for a walk."]),
    (["Yes.", "OK", "Good.", "Fine."], ["Good! What shall we do next?", "Very good."]),
    (["No.", "No, thank you."], ["That is all right."]),
    (["Test", "test", "Testing", "Are you there?"], ["I am here.", "Yes, I am here."]),
]


def greeting(rng):
    asked, said = rng.choice(GREETINGS)
    return "=" + rng.choice(asked), rng.choice(said), {"sentences_at_most": 2}


def one_word(rng):
    draw = rng.random()
    if draw < 0.5:
        category = rng.choice(list(ITEM_OF))
        item = ITEM_OF[category]
        asked = rng.choice([
            f"name one {item}", f"name {article(item)}", f"tell me one {item}", f"give me {article(item)}",
            f"say {article(item)} in one word", f"say one {item}", f"think of {article(item)} and say only its name"
        ])
        return asked, capital(rng.choice(LISTS[category])), {"words": 2}
    if draw < 0.7:
        thing, colour = rng.choice(list(THING_COLOURS.items()))
        return ("=" + rng.choice([
            f"What colour is {thing}? Answer in one word.", f"In one word, what colour is {thing}?",
            f"The colour of {thing}, in one word?", f"Give me one word: what colour is {thing}?"
        ]), capital(colour), {"words": 1})
    if draw < 0.85:
        left, right = rng.choice(OPPOSITES)
        if rng.random() < 0.5:
            left, right = right, left
        return ("=" + rng.choice([
            f"What is the opposite of {left}? One word.", f"One word: the opposite of {left}.",
            f"Answer with one word: what is the opposite of {left}?"
        ]), capital(right), {"words": 1})
    noun = rng.choice(list(ANIMALS))
    small = ANIMALS[noun][0]
    asked = rng.choice([
        f"Is {article(noun)} big or small? Answer in one word.", f"Big or small: {article(noun)}? One word, please."
    ])
    return "=" + asked, capital(small), {"words": 1}


def sentence(rng):
    shown, facts = about(rng)
    asked = rng.choice([
        "write one sentence about {}", "write a sentence about {}", "tell me one thing about {}",
        "say something about {}", "describe {} in one sentence", "give me one sentence about {}",
        "make a sentence about {}", "tell me something short about {}", "write a single sentence about {}",
        "tell me a fact about {}", "explain {} in one sentence", "write one line about {}",
        "use one sentence to describe {}"
    ]).format(shown)
    return asked, rng.choice(facts), {"sentences": 1}


def several_sentences(rng):
    shown, facts = about(rng)
    n = rng.choice([2, 2, 2, 3, 3, 3, 4, 4, 5, 6])
    count = number(rng, n)
    asked = rng.choice([
        f"write {count} sentences about {shown}", f"describe {shown} in {count} sentences",
        f"give me {count} sentences about {shown}", f"tell me {count} things about {shown}",
        f"write {count} facts about {shown}", f"say {count} things about {shown}",
        f"tell me about {shown} in {count} sentences", f"write {count} lines about {shown}"
    ])
    return asked, " ".join(rng.sample(facts, n)), {"sentences": n}


def describe(rng):
    shown, facts = about(rng)
    n = rng.choice([2, 3, 3])
    whole = rng.random() < 0.4
    if rng.random() < 0.15:  # a bare word is taken as "tell me about it"
        return "=" + rng.choice(["{}", "{}?", "{}!"]).format(rng.choice([shown, capital(shown)])), " ".join(
            rng.sample(facts, n)), {"sentences_at_most": 4}
    asked = (rng.choice([
        "=What is {}?", "=What do you know about {}?", "=What can you say about {}?", "=Do you know {}?"
    ]) if whole else rng.choice([
        "describe {}", "tell me about {}", "tell me more about {}", "explain {}", "write about {}",
        "write a few sentences about {}", "talk about {}"
    ])).format(shown)
    return asked, " ".join(rng.sample(facts, n)), {"sentences_at_most": 4}


def list_of(rng):
    category = rng.choice(list(LISTS))
    items = LISTS[category]
    n = rng.randint(2, 10)
    count, what = number(rng, n), category
    asked = rng.choice([
        f"list {count} {what}", f"list {count} {what}", f"name {count} {what}", f"give me {count} {what}",
        f"write down {count} {what}", f"make a list of {count} {what}", f"write a list of {count} {what}",
        f"tell me {count} {what}", f"I need {count} {what}", f"show me {count} {what}", f"find {count} {what}",
        f"think of {count} {what}", f"enumerate {count} {what}", f"give me a list with {count} {what}",
        f"name me {count} different {what}", f"=What are {count} {what}?", f"=Which {count} {what} do you know?",
        f"=Which {what} do you know? Name {count}.", f"=I want a list of {count} {what}.",
        f"={capital(count)} {what}, please.", f"=Can I have {count} {what}?", f"={capital(what)}: a list of {count}."
    ])
    if asked.startswith("I need"):
        asked = "=" + asked + "."
    if rng.random() < 0.12:  # no number: some words stand for one
        word, n = rng.choice([("a few", 3), ("some", 5), ("a couple of", 2), ("many", 10), ("several", 6)])
        asked = rng.choice(["list {} {}", "name {} {}", "give me {} {}", "tell me {} {}"]).format(word, what)
    chosen = rng.sample(items, min(n, len(items)))
    return asked, "\n".join(f"{i}. {capital(item)}" for i, item in enumerate(chosen, 1)), {"items": n}


def count(rng):
    draw = rng.random()
    if draw < 0.5:
        low, high = (1, rng.randint(2, 20)) if rng.random() < 0.7 else (rng.randint(2, 9), 0)
        high = high or low + rng.randint(2, 10)
        digits = rng.random() < 0.5
        show = str if digits else NUMBERS.__getitem__
        asked = rng.choice(["count to {1}", "count up to {1}", "count from 1 to {1}"] if low ==
                           1 else ["count from {0} to {1}", "count from {0} up to {1}"])
        if digits is False:
            asked += rng.choice([" in words", " and write the numbers as words"])
        asked = asked.format(number(rng, low), number(rng, high))
        return asked, ", ".join(show(i) for i in range(low, high + 1)) + ".", {"parts": high - low + 1}
    if draw < 0.65:
        n = rng.randint(2, 10)
        return f"count backwards from {number(rng, n)}", ", ".join(str(i)
                                                                   for i in range(n, 0, -1)) + ".", {"parts": n}
    if draw < 0.85:
        return rng.choice(["name all days of the week", "list the days of the week",
                           "tell me the days of the week"]), ", ".join(DAYS) + ".", {"parts": 7}
    return rng.choice(["name all months of the year", "list the months",
                       "tell me the twelve months"]), ", ".join(MONTHS) + ".", {"parts": 12}


def repeat(rng):
    n = rng.randint(2, 8)
    word = rng.choice(
        [rng.choice(list(ANIMALS)),
         rng.choice(COLOURS),
         rng.choice(list(FOODS)), "hello", "yes",
         made_up(rng)])
    times = "twice" if n == 2 else f"{number(rng, n)} times"
    asked = rng.choice(["say {} {}", "repeat the word {} {}", "write {} {}",
                        "write the word {} {}"]).format(word, times)
    return asked, " ".join([word] * n), {"words": n}


def question(rng):
    return rng.choice([
        ask_colour, ask_animal, ask_animal, ask_sum, ask_order, ask_person, ask_place, ask_object, ask_yes_no,
        ask_opposite, ask_weather
    ])(rng)


def said(asked, answer):
    return "=" + asked, answer, {"sentences_at_most": 2}


def ask_colour(rng):
    thing, colour = rng.choice(list(THING_COLOURS.items()))
    return said(
        rng.choice([
            f"What colour is {thing}?", f"Which colour does {thing} have?", f"Do you know the colour of {thing}?",
            f"Tell me the colour of {thing}."
        ]), f"{capital(thing)} is {colour}.")


def ask_animal(rng):
    noun = rng.choice(list(ANIMALS))
    size, sound, home, food, does, _, legs = ANIMALS[noun]
    a = article(noun)
    A = capital(a)
    return said(*rng.choice([
        (f"Where does {a} live?", f"{A} lives {home}."),
        (f"What does {a} eat?", f"{A} eats {food}."),
        (f"What sound does {a} make?", f"{A} {sound}."),
        (f"What does {a} do?", f"{A} {does}."),
        (f"How many legs does {a} have?", f"{A} has {NUMBERS[legs] if legs else 'no'} legs."),
        (f"Is {a} big or small?", f"{A} is {size}."),
        (f"Where do {plural(noun)} live?", f"{A} lives {home}."),
        (f"What do {plural(noun)} eat?", f"{A} eats {food}."),
        (f"Where can I find {a}?", f"You can find {a} {home}."),
        (f"How big is {a}?", f"{A} is a {size} animal."),
        (f"Which food does {a} like?", f"{A} likes {food}."),
    ]))


def ask_sum(rng):
    left, right = rng.randint(0, 10), rng.randint(0, 10)
    if rng.random() < 0.6:
        words = f"{capital(NUMBERS[left])} plus {NUMBERS[right]} is {NUMBERS[left + right]}."
        return said(
            rng.choice([
                f"What is {NUMBERS[left]} plus {NUMBERS[right]}?", f"What is {left} + {right}?",
                f"How much is {left} plus {right}?"
            ]), words)
    left, right = max(left, right), min(left, right)
    return said(
        rng.choice([
            f"What is {NUMBERS[left]} minus {NUMBERS[right]}?", f"What is {left} - {right}?",
            f"How much is {left} minus {right}?"
        ]), f"{capital(NUMBERS[left])} minus {NUMBERS[right]} is {NUMBERS[left - right]}.")


def ask_order(rng):
    table, what = rng.choice([(DAYS, "day"), (MONTHS, "month")])
    i, step = rng.randrange(len(table)), rng.choice([1, -1])
    word = "after" if step == 1 else "before"
    other = table[(i + step) % len(table)]
    return said(
        rng.choice([
            f"Which {what} comes {word} {table[i]}?", f"What {what} comes {word} {table[i]}?",
            f"What is the {what} {word} {table[i]}?"
        ]), f"{other} comes {word} {table[i]}.")


def ask_person(rng):
    noun = rng.choice(list(PEOPLE))
    he, does, where, remark = PEOPLE[noun]
    return said(
        *rng.choice([(f"What does a {noun} do?",
                      f"A {noun} {does}."), (f"Where can I meet the {noun}?", f"You can meet the {noun} {where}."),
                     (f"Who {does}?",
                      f"The {noun} {does}."), (f"Who is the {noun}?", f"The {noun} {does} and {remark}."
                                               ), (f"What is the {noun} doing?", f"The {noun} {does} {where}.")]))


def ask_place(rng):
    noun = rng.choice(list(PLACES))
    where, things, how = PLACES[noun]
    one, two = rng.sample(things, 2)
    return said(*rng.choice([(f"What can I see {where}?", f"{capital(where)} you can see {one} and {two}."
                              ), (f"What is {where}?",
                                  f"There you can find {one}."), (
                                      f"How is it {where}?",
                                      f"It is {how} {where}."), (f"What is the {noun} like?",
                                                                 f"The {noun} is {how}.")]))


def ask_object(rng):
    noun = rng.choice(list(OBJECTS))
    use = OBJECTS[noun][1]
    a = article(noun)
    return said(
        rng.choice(
            [f"What is {a} for?", f"What can I do with {a}?", f"Why do I need {a}?", f"For what do people use {a}?"]),
        f"{capital(a)} is for {use}.")


def ask_yes_no(rng):
    noun = rng.choice(list(ANIMALS))
    size, _, home, food, _, _, legs = ANIMALS[noun]
    a = article(noun)
    other = rng.choice(["big", "small"])
    homes = ("the water", home in ("in the sea", "in the river"))
    legged = rng.choice([0, 2, 4, 6, 8])
    return said(*rng.choice([
        (f"Is {a} {other}?", f"Yes, {a} is {size}." if other == size else f"No, {a} is {size}."),
        (f"Does {a} live in {homes[0]}?", f"{'Yes' if homes[1] else 'No'}, {a} lives {home}."),
        (f"Does {a} have {NUMBERS[legged] if legged else 'no'} legs?",
         f"{'Yes' if legged == legs else 'No'}, {a} has {NUMBERS[legs] if legs else 'no'} legs."),
        (f"Can I eat {rng.choice(list(OBJECTS))}s?", "No, you cannot eat that."),
        (f"Do you like {plural(noun)}?", f"Yes, I like {plural(noun)} very much."),
    ]))


def ask_opposite(rng):
    left, right = rng.choice(OPPOSITES)
    if rng.random() < 0.5:
        left, right = right, left
    return said(
        rng.choice([
            f"What is the opposite of {left}?", f"Which word is the opposite of {left}?",
            f"Tell me the opposite of {left}."
        ]), f"The opposite of {left} is {right}.")


def ask_weather(rng):
    noun = rng.choice(list(WEATHER))
    _, people_do, how = WEATHER[noun]
    the = article(noun) if noun in ("storm", "rainbow") else "the " + noun
    return said(*rng.choice([(
        f"What do people do in {the}?" if noun not in ("rainbow", ) else "What do people do when they see a rainbow?",
        f"They {people_do}."), (f"How is {the}?",
                                f"{capital(the)} is {how}."), (f"What is {the} like?", f"{capital(the)} is {how}.")]))


def steps(rng):
    task = rng.choice(list(RECIPES))
    everything = RECIPES[task]
    n = rng.randint(2, 7)
    chosen = [everything[i] for i in sorted(rng.sample(range(7), n))]
    count_ = number(rng, n)
    if rng.random() < 0.35:
        chosen, n = everything, 7
        asked = rng.choice([
            f"=How do I {task}?", f"explain how to {task}", f"tell me how to {task}", f"=How can I {task}?",
            f"give me the steps to {task}"
        ])
    else:
        asked = rng.choice([
            f"explain in {count_} steps how to {task}", f"tell me how to {task} in {count_} steps",
            f"=How do I {task}? Use {count_} steps.", f"give me {count_} steps to {task}",
            f"write {count_} steps to {task}"
        ])
    return asked, "\n".join(f"{i}. {step}" for i, step in enumerate(chosen, 1)), {"items": n}


POEM_LINES = [
    ["The {a} is {ca} and the {b} is {cb},", "And I am sitting here with you."],
    ["The {a} went out to find the sun,", "And all the children want to run."],
    ["The {a} is sleeping in the hay,", "And dreams of summer and of May."],
    ["O little {a}, come here to me,", "And sit below the apple tree."],
    ["The wind is soft, the night is near,", "The {a} is all I want to hear."],
    ["The {a} looks up into the sky,", "And sees the {cb} clouds go by."],
    ["I saw the {a} beside the sea,", "It looked around and smiled at me."],
    ["The {a} can sing, the {b} can play,", "And so they sing the night away."],
]


def poem(rng):
    noun, other = rng.sample(list(ANIMALS), 2)
    n = rng.choice([2, 4, 4, 4, 6, 8])
    lines = []
    for pair in rng.sample(POEM_LINES, n // 2):
        ca, cb = rng.sample(COLOURS, 2)
        lines += [line.format(a=noun, b=other, ca=ca, cb=cb) for line in pair]
    shown = article(noun)
    asked = (rng.choice([
        f"write a poem about {shown}", f"write a short poem about {shown}", f"make a rhyme about {shown}",
        f"sing a song about {shown}"
    ]) if n == 4 else rng.choice([
        f"write a poem with {number(rng, n)} lines about {shown}",
        f"write {number(rng, n)} lines of a poem about {shown}",
        f"make a song of {number(rng, n)} lines about {shown}"
    ]))
    return asked, "\n".join(lines), {"lines": n}


def story_subject(rng):
    """(the words of the prompt after "a story", what the story needs to know)"""
    draw = rng.random()
    if draw < 0.45:
        noun = rng.choice(list(ANIMALS) + list(PEOPLE))
        return " about " + rng.choice([article(noun), article(noun), "the " + noun, f"a little {noun}"]), {
            "noun": noun
        }
    if draw < 0.60:
        noun = rng.choice(list(ANIMALS) + list(PEOPLE))
        name = rng.choice(PET_NAMES if noun in ANIMALS else BOYS if PEOPLE[noun][0] == "he" else GIRLS)
        return rng.choice([
            f" about {article(noun)} named {name}", f" about {article(noun)} called {name}",
            f" about {name} the {noun}"
        ]), {"noun": noun, "name": name}
    if draw < 0.67:
        thing = rng.choice(list(OBJECTS))
        noun = rng.choice(list(ANIMALS) + list(PEOPLE))
        return rng.choice(
            [f" about {article(noun)} and {article(thing)}",
             f" about {article(noun)} with {article(thing)}"]), {"noun": noun, "thing": thing}
    if draw < 0.72:
        thing = rng.choice(list(OBJECTS))
        return " about " + rng.choice([article(thing), "a lost " + thing, "the " + thing]), {"thing": thing}
    if draw < 0.77:
        place = rng.choice(list(PLACES))
        return rng.choice(
            [f" about the {place}", f" that happens {PLACES[place][0]}",
             f" about a day {PLACES[place][0]}"]), {"place": place}
    if draw < 0.80:
        weather = rng.choice(list(WEATHER))
        return " about " + (article(weather) if weather in ("storm", "rainbow") else rng.choice(["the ", ""]) +
                            weather), {"weather": weather}
    if draw < 0.90:
        noun = rng.choice([
            made_up(rng),
            rng.choice(
                "dragon robot giant witch fairy pirate ghost unicorn dinosaur zebra penguin camel parrot nurse "
                "pilot knight wizard clown tiger kitten puppy mermaid monster spaceship car train star".split())
        ])
        return " about " + article(noun), {"noun": noun}
    return "", {}


def story_n(rng):
    n = rng.choice([2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9, 10])
    subject, known = story_subject(rng)
    count_ = number(rng, n)
    asked = rng.choice([
        f"tell me a story{subject} in {count_} sentences", f"write a story{subject} in {count_} sentences",
        f"write a story of {count_} sentences{subject}", f"tell me a story of {count_} sentences{subject}",
        f"tell a {count_} sentence story{subject}", f"write a {count_} sentence story{subject}",
        f"make up a story{subject} with {count_} sentences", f"in {count_} sentences, tell me a story{subject}"
    ])
    return asked, " ".join(story(rng, n, **known)), {"sentences": n}


def story_plain(rng):
    subject, known = story_subject(rng)
    asked = rng.choice([
        "tell me a story{}", "tell me a story{}", "write a story{}", "tell a story{}", "make up a story{}",
        "I want to hear a story{}", "invent a story{}", "read me a story{}", "tell me a bedtime story{}",
        "tell a fairy tale{}", "=Do you know a story{}?", "=Once I heard a story{}. Can you tell it?",
        "=A story{}, please.", "=A story{}!", "=I would like a story{}."
    ]).format(subject)
    if asked.startswith("I want"):
        asked = "=" + asked + "."
    return asked, " ".join(story(rng, rng.randint(7, 11), **known)), {"sentences_between": [6, 12]}


def story_short(rng):
    subject, known = story_subject(rng)
    asked = rng.choice([
        "tell me a short story{}", "write a short story{}", "tell a very short story{}", "give me a little story{}",
        "tell me a quick story{}", "write a tiny story{}"
    ]).format(subject)
    return asked, " ".join(story(rng, rng.randint(3, 5), **known)), {"sentences_between": [3, 5]}


def story_long(rng):
    subject, known = story_subject(rng)
    known.pop("weather", None)
    very = rng.random() < 0.25
    asked = rng.choice([
        "tell me a very long story{}", "write a very long story{}", "write a whole chapter{}",
        "tell me the longest story you know{}"
    ] if very else [
        "tell me a long story{}", "tell me a long story{}", "write a long story{}", "make up a long story{}",
        "write a story{} with many sentences", "tell me a long bedtime story{}", "write a long tale{}",
        "=I have time. Tell me a long story{}.", "write a detailed story{}"
    ]).format(subject)
    return asked, long_story(rng, 3 if very else 2, **known), {"sentences_between": [14, 45]}


def unclear(rng):
    words = " ".join(made_up(rng) for _ in range(rng.randint(1, 5)))
    asked = rng.choice([
        words, words + "?",
        capital(words) + ".", "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 9)))
    ])
    return "=" + asked, rng.choice([
        "I did not understand that. Can you say it in other words?", "I am sorry, I did not understand you.",
        "I do not know that word."
    ]), {"sentences_at_most": 2}


def unknown(rng):
    if rng.random() < 0.25:
        return unclear(rng)
    thing = rng.choice(UNKNOWN) if rng.random() < 0.7 else made_up(rng)
    asked = "=" + rng.choice([
        f"What is {thing}?", f"Explain {thing}.", f"Tell me about {thing}.", f"How does {thing} work?",
        f"Who invented {thing}?", f"Write an essay about {thing}.", f"Can you explain {thing} to me?",
        f"Why is {thing} important?", f"What do you think about {thing}?", f"Help me with {thing}.",
        f"Translate {thing}.", f"Write a report on {thing}.", f"When was {thing} made?"
    ])
    answer = rng.choice([
        "I am sorry, I do not know that.", "I do not know that. I only know a small world.",
        f"I do not know much about {thing}.",
        "That is outside of my small world. Ask me about animals, people or places."
    ])
    return asked, answer, {"sentences_at_most": 2}


MAKERS = {
    "greeting": greeting, "word": one_word, "sentence": sentence, "sentences": several_sentences, "list": list_of,
    "count": count, "repeat": repeat, "question": question, "describe": describe, "steps": steps, "poem": poem,
    "story_n": story_n, "story": story_plain, "story_short": story_short, "story_long": story_long, "unknown": unknown
}
