# SPDX-License-Identifier: Apache-2.0
"""Single sentences about one animal, person, place, thing, food or kind of weather."""
from words import article, capital, plural
from world import (ANIMALS, BOYS, COLOURS, FOODS, GIRLS, MASS_FOOD, OBJECTS, PEOPLE, PET_NAMES, PLACES, WEATHER)


def animal_facts(rng, noun):
    size, sound, home, food, does, remark, legs = ANIMALS[noun]
    a, many = capital(article(noun)), capital(plural(noun))
    name = rng.choice(PET_NAMES)
    colour = rng.choice("brown black white grey".split())
    return [
        f"{a} is a {size} animal.", f"{a} {sound}.", f"{a} lives {home}.", f"{a} eats {food}.", f"{a} {does}.",
        f"{a} {remark}.", f"The {noun} {rng.choice(['sleeps', 'is at home', 'looks for food'])} {home}.",
        f"A {colour} {noun} {does}.", f"My {noun} is called {name}.", f"{many} like to eat {food}.",
        f"You can find {many.lower()} {home}.", f"The {size} {noun} is looking for {food}.",
        f"Yesterday I saw {article(noun)} {home}."
    ]


def person_facts(rng, noun):
    he, does, where, remark = PEOPLE[noun]
    name = rng.choice(BOYS if he == "he" else GIRLS)
    return [
        f"The {noun} {does}.", f"The {noun} {does} {where}.", f"You can meet the {noun} {where}.",
        f"The {noun} {remark}.", f"The name of the {noun} is {name}.", f"Every morning the {noun} {does}.",
        f"The {noun} is happy {where}.", f"{name} is a {rng.choice(['good', 'kind', 'famous'])} {noun}.",
        f"Everybody likes the {noun}."
    ]


def place_facts(rng, noun):
    where, things, how = PLACES[noun]
    one, two = rng.sample(things, 2)
    return [
        f"The {noun} is {how}.", f"{capital(where)} you can find {one}.",
        f"{capital(where)} you can see {one} and {two}.", f"It is nice to be {where}.",
        f"Many people like the {noun}.", f"In the morning it is quiet {where}.",
        f"We walked to the {noun} and saw {one}.", f"A {rng.choice(list(ANIMALS))} is resting {where}.",
        f"The {noun} is my favourite place."
    ]


def object_facts(rng, noun):
    use, colour, owner = OBJECTS[noun][1], rng.choice(COLOURS), rng.choice(list(PEOPLE))
    a = article(noun)
    return [
        f"{capital(a)} is for {use}.", f"The {noun} is {colour}.", f"The {owner} has {article(colour)} {noun}.",
        f"I found {article(colour)} {noun} {PLACES[rng.choice(list(PLACES))][0]}.", f"You need {a} for {use}.",
        f"The {noun} lies on the table.", f"The {owner} bought a new {noun}.", f"An old {noun} stands in the corner."
    ]


def weather_facts(rng, noun):
    today, people_do, how = WEATHER[noun]
    the = article(noun) if noun in ("storm", "rainbow") else "the " + noun
    return [
        f"{capital(the)} is {how}.", f"When it comes, people {people_do}.", f"{today} in the village.",
        f"{today} all day long.", f"The {rng.choice(list(PEOPLE))} looks at {the} through the window.",
        f"{today}, and the {rng.choice(list(ANIMALS))} went home.", f"Children love {the}.",
        f"After {the} the air is fresh."
    ]


def food_facts(rng, noun):
    colour, taste = FOODS[noun]
    a, many = (noun, noun) if noun in MASS_FOOD else (article(noun), plural(noun))
    verb = "is" if noun in MASS_FOOD else "are"
    return [
        f"{capital(a)} is {colour} and {taste}.", f"{capital(many)} {verb} good to eat.",
        f"The cook buys {many} at the market.", f"I eat {a} every morning.", f"{capital(many)} {verb} {taste}.",
        f"The {rng.choice(list(PEOPLE))} likes {many}.", f"There {verb} {many} in the basket."
    ]


FACTS = [(ANIMALS, animal_facts), (PEOPLE, person_facts), (PLACES, place_facts), (OBJECTS, object_facts),
         (WEATHER, weather_facts), (FOODS, food_facts)]


def about(rng):
    """(the subject as people write it, its sentences)"""
    table, facts = rng.choices(FACTS, [6, 3, 3, 3, 3, 2])[0]
    noun = rng.choice(list(table))
    if table is WEATHER:
        shown = rng.choice([noun, "the " + noun]) if noun not in ("storm", "rainbow") else article(noun)
    elif table is PLACES:
        shown = rng.choice(["the " + noun, article(noun)])
    elif noun in MASS_FOOD and table is FOODS:
        shown = noun
    else:
        shown = rng.choice([article(noun), "the " + noun, plural(noun), article(noun)])
    return shown, facts(rng, noun)
